"""The modules that one plain job passes from `POST /api/jobs` to completed, for docs/decisions/0040.

`python -m harness.job_path` prints two counts. *Traced*: the modules with a function that the event loop calls between
the request and the end of the job, for each of `RUNS` jobs, after a first one has filled the caches.
*Read*: those among them that a reader of the code has to open in order to follow the job, by the method of the review
that counted "about 60": each module in which the job or its request is decided on, changed or passed on. Not read are
modules of values and settings, modules of which only small checks or properties are called (at most `SMALL` lines in
one call), chores, and what the worker does beside the job.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import aiohttp

import mainspring
from mainspring import Scheduler
from mainspring.api.server import Server
from mainspring.api.settings import ServiceSettings

SOURCE = Path(mainspring.__file__).parent
SMALL = 6
RUNS = 5
_BESIDE = ("engine/chores/", "engine/peers.py", "engine/service.py", "engine/watcher.py", "engine/services/", "config/")
"""What a worker does beside its jobs, and settings."""
_VALUES = ("clock.py", "errors.py", "durations.py", "spelling.py", "model/", "rules/", "api/wire/")
"""Values: they are looked up when their name is met."""

Calls = dict[str, set[CodeType]]
"""The called functions of each module, by its path in the package."""


@contextmanager
def tracing() -> Iterator[Calls]:
    """Record the functions of Mainspring that this thread calls."""
    calls: Calls = defaultdict(set)

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            calls[str(Path(frame.f_code.co_filename).relative_to(SOURCE))].add(frame.f_code)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def path_of_a_job(uri: str) -> Calls:
    """The functions that are called for one plain job, from its request to its end, by module."""
    scheduler = Scheduler(uri)

    @scheduler.job("work")
    async def work(x: int) -> int:
        return x

    settings: dict[str, Any] = {"port": 0}
    server = Server(scheduler, ServiceSettings(**settings), keyless=True)
    await scheduler.start()
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            await _one_job(scheduler, session, server.url)
            runs = []
            for _ in range(RUNS):
                with tracing() as calls:
                    await _one_job(scheduler, session, server.url)
                runs.append(calls)
            return in_all(runs)
    finally:
        await server.stop()
        await scheduler.stop()


async def _one_job(scheduler: Scheduler, session: aiohttp.ClientSession, url: str) -> None:
    async with session.post(f"{url}/api/jobs", json={"name": "work", "data": {"x": 1}}) as answer:
        assert answer.status == 201, await answer.text()
        job_id = (await answer.json())["data"]["jobId"]
    assert (await scheduler.wait(job_id)).result == 1


def in_all(runs: list[Calls]) -> Calls:
    """The functions that were called for each of the jobs: chores that happened to run beside some of them drop out."""
    called = {module: set.intersection(*(run.get(module, set()) for run in runs)) for module in runs[0]}
    return {module: codes for module, codes in called.items() if codes}


def to_read(calls: Calls) -> list[str]:
    """The modules among the traced ones that a reader has to open."""
    return sorted(
        module
        for module, codes in calls.items()
        if not module.startswith((*_BESIDE, *_VALUES)) and any(_lines(code) > SMALL for code in codes)
    )


def _lines(code: CodeType) -> int:
    numbers = [number for _, _, number in code.co_lines() if number]
    return max(numbers) - min(numbers) + 1


if __name__ == "__main__":
    found = asyncio.run(path_of_a_job(sys.argv[1]))
    read = to_read(found)
    for name in sorted(found):
        print(("  read  " if name in read else "        ") + name, *sorted(code.co_name for code in found[name]))
    print(f"{len(found)} modules traced, {len(read)} to be read")
