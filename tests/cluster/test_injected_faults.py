"""Whatever call to the store or to the driver fails, and however: afterwards every job has ended, every slot is free,
no wait list is stuck, and nothing runs on.

By default a run of some seconds under the faults of one seed; `MAINSPRING_FAULTS=full`: five seeds, minutes each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mainspring.engine
from cluster.disturbed import Disturbed
from harness.faults import Injector, Site, store_verbs
from harness.inside import inside
from harness.waiting import eventually
from mainspring.store import Store

FULL = os.environ.get("MAINSPRING_FAULTS") == "full"
VERBS = frozenset(store_verbs())  # as they are before they are wrapped
SEEDS = range(5) if FULL else range(1)
_FLOWS = ("mainspring.store.flows.", "mainspring.engine.flows.")


SELDOM = frozenset(
    {"Checks.long_waiting", "FlowReads.total", "FlowRetries.carry_on", "Signals.prune", "Trees.carry_on"}
)
"""The verbs of flows that are called after a death, or once in minutes."""
FLOWS = frozenset(f"{kind.__name__}.{verb}" for kind, verb in VERBS if kind.__module__.startswith(_FLOWS[0])) - SELDOM


def is_of_flows(site: Site) -> bool:
    return site.verb in FLOWS or site.caller.startswith(_FLOWS)


@pytest.fixture
def injector(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Injector]:
    injector = Injector(random.Random(request.node.callspec.params["seed"]))
    injector.install(monkeypatch)
    injector.eager = is_of_flows
    yield injector
    injector.armed = False


def engine_verbs(store: Store) -> set[str]:
    """The verbs of the store that the code of a worker names, under the classes that define them."""
    code = "".join(path.read_text() for path in Path(mainspring.engine.__path__[0]).rglob("*.py"))
    owners = [
        (kind, verb)
        for part, verb in re.findall(r"store\.(\w+)\.(\w+)\(", code)
        for kind in type(getattr(store, part, None)).__mro__
    ]
    known = VERBS
    return {f"{owner.__name__}.{verb}" for owner, verb in owners if (owner, verb) in known}


def tasks_left(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """The tasks that are new since then, without what the driver leaves of reads that were cancelled."""
    left = asyncio.all_tasks() - before
    return {
        task for task in left if "pymongo" not in getattr(task.get_coro(), "cr_code", tasks_left.__code__).co_filename
    }


@pytest.mark.timeout(1200 if FULL else 480)
@pytest.mark.parametrize("seed", SEEDS)
async def test_after_any_fault_of_any_call_every_job_ends_and_every_slot_is_free(
    uri: str, injector: Injector, seed: int
) -> None:
    before = asyncio.all_tasks()
    world = Disturbed(uri, injector, random.Random(seed))
    try:
        await world.start()
        injector.armed = True
        named = engine_verbs(await inside(world.schedulers[0]).store())

        def met() -> set[str]:
            return named & {site.verb for site, _ in injector.injected}

        def enough() -> bool:
            of_flows = len(met() & FLOWS) / len(named & FLOWS)
            return 3 * len(met()) > len(named) and of_flows > (0.75 if FULL else 0.5)

        await world.run(240 if FULL else 15, 240 if FULL else 100, enough)
        ran = time.monotonic()
        await world.settle(180)
        findings = await world.findings()
        assert not findings, "\n".join(sorted(findings, key=len)[:20])
        assert enough(), f"too little was disturbed: {sorted(met())}"
        faults, sites = sum(injector.injected.values()), len(injector.sites)
        print(f"{faults} faults at {sites} sites; settled after {time.monotonic() - ran:.0f} s")
        print(f"not met: {sorted(named - met())}")
    finally:
        injector.armed = False
        await world.stop()
    with contextlib.suppress(AssertionError):  # what is left is told below
        await eventually(lambda: not tasks_left(before), 60)
    assert [repr(task) for task in tasks_left(before)] == []
    assert [thread.name for thread in threading.enumerate() if "heartbeat" in thread.name] == []
