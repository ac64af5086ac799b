"""The attacks that take a moment each, a few tries of every kind, on one product that is started for all of them.

`make attack` does all of it, in a network of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from attack.areas import NAMES
from attack.books import Row, attempt, chosen, findings, table, verdict
from attack.stage import Stage
from harness.servers import Servers


@pytest.mark.timeout(400)
async def test_every_promise_that_is_quick_to_try_holds(servers: Servers, tmp_path: Path) -> None:
    stage = Stage(tmp_path, servers, quick=True, embedded=False)
    try:
        await stage.start()
        rows = [await attempt(stage, probe) for probe in chosen(NAMES) if probe.fast]
    finally:
        await stage.stop()
    assert verdict(rows) == 0, "\n".join(findings(rows))
    assert sum(row.tries for row in rows) > 500


def test_a_try_that_does_not_hold_is_told_with_its_request_and_ends_with_1() -> None:
    row = Row("door", "Nobody is let in")
    row.check(True, "GET /held")
    row.check(False, "GET /broke → 200")
    assert (row.tries, row.held, verdict([row])) == (2, 1, 1)
    assert "| door | Nobody is let in | 2 | 1 | 1 |" in table([row])
    assert findings([row]) == ["BROKE    door: Nobody is let in\n         GET /broke → 200"]


def test_what_could_not_be_tried_ends_with_2_and_says_why() -> None:
    row = Row("door", "Nobody is let in")
    with pytest.raises(Exception, match="the control failed: a right key is let in"):
        row.control(False, "a right key is let in")
    row.unknown = "no network"
    assert verdict([row]) == 2 == verdict([])
    assert findings([row]) == ["NOT RUN  door: Nobody is let in: no network"]
    assert verdict([Row("door", "Nobody is let in", tries=1)]) == 0


def test_every_area_has_a_name_and_every_probe_an_area() -> None:
    assert {probe.area for probe in chosen(NAMES)} == set(NAMES)
    promises = [probe.promise for probe in chosen(NAMES)]
    assert len(set(promises)) == len(promises)
