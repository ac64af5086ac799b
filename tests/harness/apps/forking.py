"""Connects, forks children that each use the scheduler, and waits for them.

The arguments: `connected` or `started` (jobs run in the parent), the number of children, and of jobs for each.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from mainspring.sync import Scheduler

scheduler = Scheduler(poll_interval=0.2)


@scheduler.job("work")
def work() -> None:
    """Does nothing."""


def serve(jobs: int, *, work_too: bool) -> None:
    """What a child does."""
    scheduled = [scheduler.schedule("work") for _ in range(jobs)]
    assert [scheduler.get_job(job.id).name for job in scheduled] == ["work"] * jobs
    if work_too:
        scheduler.start()
        scheduler.wait(scheduled[-1].id, timeout=60)
        scheduler.stop()


def main(running: str, children: int, jobs: int) -> None:
    if running == "started":
        scheduler.start()
    scheduler.schedule("work")
    pids = []
    for index in range(children):
        pid = os.fork()
        if pid == 0:
            serve(jobs, work_too=running == "started" and index % 2 == 1)
            if index % 4 == 0:
                scheduler.stop()
            sys.exit(0)  # with all that an interpreter does at its end
        pids.append(pid)
    codes = [_wait(pid, time.monotonic() + 60) for pid in pids]
    last = scheduler.schedule("work")
    if running == "started":
        scheduler.wait(last.id, timeout=60)
    scheduler.stop()
    sys.exit(0 if codes == [0] * children else f"children ended with {codes}")


def _wait(pid: int, until: float) -> int:
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1000


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
