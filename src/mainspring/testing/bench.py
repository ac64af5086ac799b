"""A worker at work for one call of a helper: started for it, or the one that runs already, watched until it is idle.

The worker is the real one, with its limits, flows and chores: nothing of the engine is imitated. What it does now and
then it is told to do at once, so that no test waits for a poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from mainspring.client.scheduler import Scheduler, core_of, lifecycle_of
from mainspring.clock import monotonic
from mainspring.engine.worker import Worker
from mainspring.errors import HandlerError, MainspringError
from mainspring.model.jobs.event_names import EventName
from mainspring.model.jobs.job import Job, bind
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.model.schedules.ledger import Notice
from mainspring.spelling import suggestion
from mainspring.testing.probe import Probe, known_probe, probe_of
from mainspring.testing.runs import Run, Runs

_ENDS: dict[EventName, str] = {
    "job:success": "completed",
    "job:fail": "failed",
    "job:retry": "retried",
    "job:cancel": "cancelled",
    "job:snooze": "snoozed",
    "job:suspend": "suspended",
    "job:lost": "lost",
}
_CHANGES: tuple[EventName, ...] = ("job:rescue", "job:expire")
_NOTICES: tuple[EventName, ...] = ("schedule:late", "schedule:missed", "schedule:skipped")
_LOOK_EVERY = 0.001


class Bench:
    """Watches the worker of one Scheduler, and lets it work until it is idle."""

    def __init__(self, scheduler: Scheduler, probe: Probe | None, most: int, timeout: float) -> None:
        self.scheduler = scheduler
        self._probe = probe
        self._most = most
        self._timeout = timeout
        self.runs: list[Run] = []
        self.created: list[Job] = []
        self.notices: list[Notice] = []
        self._started: set[tuple[str, int]] = set()
        self._changes = 0
        self.crashed = False
        """Whether the worker has died by a fault, so that nothing more is run."""

    # -- watching --------------------------------------------------------------------------------------------------

    def callbacks(self) -> list[tuple[EventName, Callable[..., Any]]]:
        """What to call at which event."""
        found: list[tuple[EventName, Callable[..., Any]]] = [
            ("job:start", self._on_start),
            ("job:created", self._on_created),
        ]
        found += [(event, partial(self._on_end, outcome)) for event, outcome in _ENDS.items()]
        found += [(event, self._on_change) for event in _CHANGES]
        return found + [(event, self._on_notice) for event in _NOTICES]

    def _on_start(self, job: Job) -> None:
        self._changes += 1
        self._started.add((job.id, job.token))

    def _on_created(self, job: Job) -> None:
        self._changes += 1
        self.created.append(bind(job, self.scheduler))

    def _on_end(self, outcome: str, job: Job) -> None:
        self._changes += 1
        if (job.id, job.token) in self._started:
            raised = None if self._probe is None else self._probe.raised(job.id, job.token)
            self.runs.append(Run(outcome, bind(job, self.scheduler), raised))

    def _on_change(self, job: Job) -> None:
        self._changes += 1

    def _on_notice(self, notice: Notice) -> None:
        self._changes += 1
        self.notices.append(notice)

    # -- working ---------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Return when nothing is due any more, or when the worker has died by a fault."""
        until = monotonic() + self._timeout
        while not self.crashed:
            before, worker = self._changes, self._worker()
            await worker.catch_up_with_all()
            worker.poll_all()
            await self._until_idle(worker, until)
            if self._changes == before:
                return
            self._check_number()

    def _worker(self) -> Worker:
        worker = core_of(self.scheduler).worker.current
        if worker is None:
            raise MainspringError("The worker of this scheduler was stopped while a test waited for it.")
        return worker

    async def _until_idle(self, worker: Worker, until: float) -> None:
        while not worker.idle:
            if self._probe is not None and self._probe.crashed:
                await self._bury(worker, self._probe)
                return
            if monotonic() > until:
                raise AssertionError(self._stuck(worker))
            self._check_number()
            await asyncio.sleep(_LOOK_EVERY)

    async def _bury(self, worker: Worker, probe: Probe) -> None:
        """Let the worker die: its claims stay as they are until their leases run out."""
        self.crashed = True
        core_of(self.scheduler).worker.take()
        abandoned = asyncio.ensure_future(worker.abandon())
        await asyncio.sleep(0)
        probe.bury()
        await abandoned

    def _check_number(self) -> None:
        if len(self.runs) > self._most:
            last = ", ".join(repr(run.name) for run in self.runs[-3:])
            raise AssertionError(
                f"{self._most:,} attempts have ended and jobs are still due; the last were at {last}. A job may "
                "schedule itself without a delay; give most=… if there are really so many."
            )

    def _stuck(self, worker: Worker) -> str:
        running = [f"{one.job.name!r} ({one.id})" for one in worker.claimed_jobs.all()]
        what = f"still running: {', '.join(running)}" if running else "none is running: MongoDB is slow to answer"
        return f"The jobs did not end within {self._timeout:g} s; {what}. Give timeout=… if they really take so long."

    # -- what is left ----------------------------------------------------------------------------------------------

    async def check_handlers(self) -> None:
        """Refuse due jobs that no handler of this scheduler can run: the test would pass without having run them."""
        core, now = core_of(self.scheduler), self.scheduler.now()
        known = sorted(core.handlers.own_names)
        async for job in self.scheduler.jobs(state="pending"):
            unknown = core.handlers.get(job.name) is None and job.name not in FLOW_NAMES
            if unknown and job.run_at <= now:
                hint = suggestion(job.name, known) if known else " It has no handlers: import the module with them."
                raise HandlerError(
                    f"Job {job.id} is due, and this scheduler has no handler for {job.name!r}.{hint} "
                    "If another program runs such jobs, give unhandled=True."
                )

    async def next_job_at(self, now: datetime) -> datetime | None:
        """The next instant after now at which a job is due, a wait ends, a rate or a breaker lets a job start that
        waits for it, or the lease of a dead worker runs out."""
        pending = [job async for job in self.scheduler.jobs(state="pending")]
        instants = [job.run_at for job in pending]
        if any(job.waiting_for for job in pending):
            instants += [one.open_until for one in await self.scheduler.limits.breakers() if one.open_until]
        waits = [job.waits async for job in self.scheduler.jobs(state="blocked")]
        instants += [one.until for one in waits if one is not None and one.until is not None]
        grace = timedelta(seconds=self.scheduler.settings.rescue_grace)
        instants += [job.lease_until + grace async for job in self.scheduler.jobs(state="running") if job.lease_until]
        opening = await (await core_of(self.scheduler).store()).gates.next_opening(now)
        instants += [] if opening is None else [opening]
        return min((one for one in instants if one > now), default=None)

    async def next_firing_at(self, now: datetime) -> datetime | None:
        """The next instant after now at which a schedule fires."""
        outlook = await (await core_of(self.scheduler).store()).firing.outlook()
        return min((at for _, at in outlook.soonest if at > now), default=None)

    @property
    def result(self) -> Runs:
        return Runs(self.runs)


@asynccontextmanager
async def at_work(scheduler: Scheduler, most: int, timeout: float) -> AsyncIterator[Bench]:
    """A bench with a worker: the one that runs, or one that is started for this block and stopped at its end."""
    running = scheduler.running
    bench = Bench(scheduler, known_probe(scheduler) if running else probe_of(scheduler), most, timeout)
    callbacks = bench.callbacks()
    for event, callback in callbacks:
        scheduler.on(event, callback)
    try:
        if not running:
            await scheduler.start()
        yield bench
    finally:
        for event, callback in callbacks:
            scheduler.off(event, callback)
        if not running:
            await lifecycle_of(scheduler).stop_worker(0.0)  # nothing runs, unless it hangs
