"""Check-ins of schedules with Sentry Crons: each run of a schedule is in progress, then ok or an error.

The first attempt of a run sends `in_progress`, its stored end `ok` or `error`, all with one id that follows from the
job's. The schedule's cron or interval goes along, so that Sentry makes the monitor by itself and notices runs that are
missing, also while no worker is alive to tell. Rules that Sentry does not know (seconds, calendars, several rules) have
no such configuration: make the monitor there by hand.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mainspring.client.core import Core
from mainspring.client.scheduler import Scheduler
from mainspring.engine.callbacks import JudgedBy, Observer
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.errors import MainspringError
from mainspring.model.jobs.job import FAILED, Job
from mainspring.model.jobs.outcome import Outcome
from mainspring.observability.extras import needs_extra
from mainspring.rules import Every, Rule
from mainspring.rules.cron import Cron

if TYPE_CHECKING:
    from sentry_sdk._types import MonitorConfig

try:
    from sentry_sdk.crons import capture_checkin
except ModuleNotFoundError as error:
    raise needs_extra("sentry", error) from None

logger = logging.getLogger("mainspring")

_STATUS = {"completed": "ok", "failed": "error", "cancelled": "error"}
_LONGEST_SLUG = 50
_UNITS = ((7 * 1440, "week"), (1440, "day"), (60, "hour"), (1, "minute"))
_MOST_KNOWN = 1000
_LAST_CHECK_INS = 5.0
"""Seconds for which the stop of a worker waits for check-ins that are not sent yet."""


class CheckIns(Observer):
    """The check-ins of the runs that this process executes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._configs: dict[str, MonitorConfig | None] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}
        """The last check-in of each run that is not sent yet."""
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, core: Core) -> None:
        """Follow the runs of a Scheduler, and those that end by the rescue of their job."""
        core.observers.add(self)
        core.events.on("job:rescue", self._rescued)
        core.registry.on_stop(self._settle)

    def running(self, claimed: ClaimedJob, worker: str) -> JudgedBy | None:
        job = claimed.job
        if job.schedule_id is not None and job.scheduled_for is not None and job.tries == 1:
            self._send(str(job.id), job.schedule_id, "in_progress", None)
        return None

    def ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        job, status = claimed.job, _STATUS.get(ending.outcome)
        if job.schedule_id is not None and job.scheduled_for is not None and status is not None:
            self._send(str(job.id), job.schedule_id, status, claimed.took)

    def _rescued(self, job: Job) -> None:
        if job.schedule_id is not None and job.scheduled_for is not None and job.state == FAILED:
            self._send(job.id, job.schedule_id, "error", None)

    async def _settle(self) -> None:
        """Wait for the check-ins of the last runs, and give up those that take too long: they would read the database,
        whose connection is closed next."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_LAST_CHECK_INS)
            for task in late:
                task.cancel()

    def _send(self, job_id: str, schedule_id: str, status: str, took: float | None) -> None:
        """Send a check-in after those of the same run that came before it."""
        before = self._sending.get(job_id)
        task = asyncio.create_task(self._send_after(before, job_id, schedule_id, status, took))
        self._sending[job_id] = task
        self._tasks.add(task)
        task.add_done_callback(self._sent(job_id))

    def _sent(self, job_id: str) -> Callable[[asyncio.Task[None]], None]:
        def forget(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if self._sending.get(job_id) is task:
                del self._sending[job_id]
            if not task.cancelled() and task.exception() is not None:
                logger.warning("A check-in was not sent to Sentry: %r", task.exception())

        return forget

    async def _send_after(
        self, before: asyncio.Task[None] | None, job_id: str, schedule_id: str, status: str, took: float | None
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        capture_checkin(
            slug_of(schedule_id), check_in_id_of(job_id), status, took, monitor_config=await self._config(schedule_id)
        )

    async def _config(self, schedule_id: str) -> MonitorConfig | None:
        if schedule_id not in self._configs:
            if len(self._configs) >= _MOST_KNOWN:
                self._configs.clear()
            try:
                self._configs[schedule_id] = monitor_config((await self._scheduler.schedules.get(schedule_id)).rule)
            except MainspringError:
                return None  # the schedule is deleted, or the database is away: the check-in itself matters more
        return self._configs[schedule_id]


def slug_of(schedule_id: str) -> str:
    """The slug of a schedule's monitor. Where the id has other characters, a hash keeps it from meeting another's."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", schedule_id.lower()).strip("-")
    if slug == schedule_id and len(slug) <= _LONGEST_SLUG:
        return slug
    mark = sha256(schedule_id.encode()).hexdigest()[:8]
    return f"{slug[: _LONGEST_SLUG - len(mark) - 1]}-{mark}".lstrip("-")


def check_in_id_of(job_id: str) -> str:
    """The id of a run's check-ins: the same in every process that runs an attempt of the job."""
    return sha256(job_id.encode()).hexdigest()[:32]


def monitor_config(rule: Rule) -> MonitorConfig | None:
    """The rule as Sentry knows it; None where it does not."""
    if isinstance(rule, Cron) and len(rule.expression.split()) == 5:
        return {"schedule": {"type": "crontab", "value": rule.expression}, "timezone": rule.timezone}
    if isinstance(rule, Every):
        minutes, rest = divmod(rule.period.total_seconds(), 60)
        for length, unit in _UNITS if not rest else ():
            if minutes % length == 0:
                value: Any = {"type": "interval", "value": int(minutes // length), "unit": unit}
                return {"schedule": value}
    return None
