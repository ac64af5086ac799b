"""The test of an alert rule: one message, marked as a test, to each destination; and what became of it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.errors import JobNotFound, WaitTimeout
from mainspring.model.alerts.episode import TEST, Message
from mainspring.model.alerts.rule import AlertRule
from mainspring.model.jobs.job import COMPLETED, Job
from mainspring.store.alerts.alert_rules import job_id_of


@dataclass(frozen=True, slots=True)
class AlertTest:
    """The outcome of a test message at one destination. The destination is shown without secrets."""

    to: dict[str, Any]
    job_id: str
    state: str
    """The state of the job that sends it; `completed` if the destination has accepted it."""
    error: str | None = None

    @property
    def arrived(self) -> bool:
        return self.state == COMPLETED


async def begin_trial(core: Core, rule: AlertRule) -> list[str]:
    """Store the jobs of a test message, and return their ids."""
    store = await core.store()
    now = store.alert_rules.now()
    message = Message(secrets.randbits(48), TEST, now, now, rule.state.episode, ())
    await store.alert_rules.send_test(rule, message)
    core.worker.wake()
    return [job_id_of(rule, message, place) for place in range(len(rule.to))]


async def end_trial(jobs: Jobs, rule: AlertRule, ids: Sequence[str], timeout: float) -> list[AlertTest]:
    """Wait until the jobs of a test have ended or failed once, no longer than `timeout` seconds."""
    return list(await asyncio.gather(*(_outcome(jobs, rule, place, one, timeout) for place, one in enumerate(ids))))


async def _outcome(jobs: Jobs, rule: AlertRule, place: int, job_id: str, timeout: float) -> AlertTest:
    shown = rule.to[place].shown
    try:
        job = await jobs.wait(job_id, timeout)
    except WaitTimeout as waited:
        job = await jobs.get_job(job_id)
        return AlertTest(shown, job_id, job.state, _error(job) or str(waited))
    except JobNotFound as gone:
        return AlertTest(shown, job_id, "deleted", str(gone))
    return AlertTest(shown, job_id, job.state, _error(job))


def _error(job: Job) -> str | None:
    """The error of the last attempt, of a job that did not complete."""
    last = None if job.state == COMPLETED else job.error or (job.attempts[-1].error if job.attempts else None)
    return None if last is None else f"{last.type}: {last.message}"
