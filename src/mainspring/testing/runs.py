"""What `drain()` and `travel()` return: the attempts that have ended, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mainspring.model.jobs.job import Job, JobError
from mainspring.model.printable import printable
from mainspring.model.schedules.ledger import Notice


@dataclass(frozen=True)
class Run:
    """One attempt at a job. `outcome` is completed, failed, retried, cancelled, snoozed, suspended, or lost if the
    worker crashed. `job` is the job as it was stored then."""

    outcome: str
    job: Job
    exception: BaseException | None = field(default=None, compare=False)
    """What the handler raised, if it ran in this process."""

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def data(self) -> Any:
        return self.job.data

    @property
    def result(self) -> Any:
        return self.job.result

    @property
    def error(self) -> JobError | None:
        """The error of this attempt."""
        attempts = self.job.attempts
        return self.job.error or (attempts[-1].error if attempts and self.outcome in ("retried", "failed") else None)

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1 on."""
        return self.job.tries

    def __repr__(self) -> str:
        why = f": {printable(str(self.error))}" if self.error is not None else ""
        return f"<{self.name!r} {self.outcome}, attempt {self.attempt}{why}>"


class Runs(tuple[Run, ...]):
    """The attempts that have ended, in their order."""

    __slots__ = ()

    @property
    def names(self) -> list[str]:
        """The name of each job, in the order in which the attempts ended."""
        return [run.name for run in self]

    @property
    def completed(self) -> Runs:
        """The attempts that completed their jobs."""
        return self.of("completed")

    @property
    def failed(self) -> Runs:
        """The attempts after which their jobs are dead letters."""
        return self.of("failed")

    def of(self, outcome: str) -> Runs:
        """The attempts with this outcome."""
        return Runs(run for run in self if run.outcome == outcome)

    def named(self, name: str) -> Runs:
        """The attempts at jobs of this name."""
        return Runs(run for run in self if run.name == name)

    def with_jobs(self, shown: Callable[[Job], Job]) -> Runs:
        """The same attempts with another form of their jobs."""
        return Runs(replace(run, job=shown(run.job)) for run in self)

    def __repr__(self) -> str:
        return f"Runs({list(self)!r})"


@dataclass(frozen=True)
class Journey:
    """What happened while `travel()` moved the clock."""

    arrived: datetime
    """The time to which the clock was moved."""
    firings: tuple[Job, ...] = ()
    """The jobs that schedules have made, in the order of their firings, as they were when they were made."""
    runs: Runs = field(default_factory=Runs)
    """The attempts that have ended."""
    notices: tuple[Notice, ...] = ()
    """The firings that were late, missed or skipped."""

    @property
    def instants(self) -> list[datetime]:
        """When schedules have fired."""
        return [job.scheduled_for or job.run_at for job in self.firings]

    def of(self, schedule_id: str) -> list[datetime]:
        """When this schedule has fired."""
        return [job.scheduled_for or job.run_at for job in self.firings if job.schedule_id == schedule_id]


class AttemptRaised(AssertionError):
    """An attempt raised, and the test passed `raise_errors`. The cause is the handler's exception."""

    def __init__(self, run: Run) -> None:
        self.run = run
        stack = run.error.stack if run.error is not None and run.exception is None else None
        super().__init__(
            f"Job {run.job.id} ({run.name!r}) {run.outcome} in attempt {run.attempt}: {run.error}"
            + (f"\n{stack}" if stack else "")
        )


def first_raised(runs: Iterable[Run]) -> Run | None:
    """The first attempt whose handler raised."""
    return next((run for run in runs if run.outcome in ("retried", "failed")), None)
