"""Programs that connect and fork afterwards, as application servers do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.asking import Asking
from harness.processes import Fleet, start_program
from harness.waiting import eventually

CHILDREN = 8
JOBS_EACH = 5


@pytest.mark.parametrize("running", ["connected", "started"])
async def test_children_forked_from_a_connected_program_use_the_scheduler_without_hanging(
    uri: str, ask: Asking, tmp_path: Path, fleet: Fleet, running: str
) -> None:
    log = tmp_path / "forking.log"
    program = start_program(
        "harness.apps.forking", log, {"MAINSPRING_URI": uri}, running, str(CHILDREN), str(JOBS_EACH)
    )
    try:
        await eventually(lambda: program.poll() is not None, timeout=60)
    except AssertionError:
        raise AssertionError(f"the program hangs:\n{log.read_text()}") from None
    finally:
        program.kill()
        program.wait()
    assert program.returncode == 0, log.read_text()
    # Before the fork, in each child, and after it.
    expected = 1 + CHILDREN * JOBS_EACH + 1
    assert sum((await ask.states()).values()) == expected
    if running == "connected":
        await fleet.start(lease=5)
    await ask.drained(60)
    assert await ask.states() == {"completed": expected}
