"""Programs on the blocking face: one that forks, and one that runs until it is told to stop."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from mainspring.sync import JobContext, Scheduler


def fork(uri: str) -> None:
    """Uses one scheduler before a fork, in the child, and in the parent again; prints what each has stored."""
    scheduler = Scheduler(uri)
    print("before", scheduler.schedule("work").id, flush=True)
    child = os.fork()
    if child == 0:
        print("child", scheduler.schedule("work").id, flush=True)
        scheduler.stop()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print("parent", scheduler.schedule("work").id, flush=True)
    scheduler.stop()
    sys.exit(os.waitstatus_to_exitcode(status))


def run(uri: str, grace: str) -> None:
    """Runs jobs until a signal comes."""
    scheduler = Scheduler(uri, poll_interval=0.2, grace=float(grace))

    @scheduler.job("work")
    def work(ctx: JobContext, seconds: float) -> str:
        print("begun", flush=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until and not ctx.is_cancelled:
            time.sleep(0.02)
        print("stopped early" if ctx.is_cancelled else "done", flush=True)
        return "done"

    scheduler.on("worker:start", lambda worker: print("up", flush=True))
    scheduler.run()
    print("ended", flush=True)


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {"fork": fork, "run": run}
    programs[sys.argv[1]](*sys.argv[2:])
