"""Every error a user can meet, and the signals a handler can raise.

    MainspringError
    ├── ConfigurationError      a setting or an argument is wrong; nothing was changed
    │   ├── InvalidJob          a job cannot be scheduled as asked (arguments, types, size, times)
    │   ├── InvalidSchedule     a schedule, a rule or a calendar cannot be used as written
    │   │   └── InvalidCron     a cron expression is wrong; tells where, and what was expected
    │   ├── HandlerError        a handler cannot be registered as written
    │   └── InvalidKey          a text is no API key
    ├── JobNotFound             no job has this id
    ├── JobStateError           the job is in a state that does not allow the verb
    ├── ScheduleNotFound        no schedule has this id
    ├── ScheduleStateError      the schedule's state does not allow what was asked of it
    ├── CalendarNotFound        no calendar has this name
    ├── RedriveNotFound         no redrive has this id
    ├── SecretNotFound          no secret has this name
    ├── KeyNotFound             no API key in force has this id
    ├── QueueFull               the queue has as many pending jobs as it may
    ├── BulkError               some items of a bulk were refused; carries what was inserted and what was not
    ├── ArchiveError            finished jobs were not deleted, since they could not be archived
    ├── ClaimLost               the claim ran out or was taken; whatever this holder did is not recorded
    ├── StepError               a step of a handler cannot be run or kept: its name, its result, its place
    ├── WaitTimeout             the job did not end in the time given to `wait()`
    ├── Unavailable             MongoDB cannot be reached, or did not answer in time
    ├── UnsupportedServer       the server is too old, or lacks what was asked for (transactions on a standalone)
    └── EmbeddedError           the embedded mongod cannot be found, started or used

    Signal                      raised by handlers to choose how an attempt ends; not errors
    ├── RetryAfter(delay)       try again after `delay`; costs an attempt
    ├── Snooze(delay)           try again after `delay`; costs no attempt
    ├── Cancel(reason)          end as cancelled
    └── Fail(reason)            end as failed now, whatever attempts are left

Breakers take a failed attempt for a sign that what the job needs is down. An error or signal whose attribute `outage`
is False says that it is up, and one where that is None says nothing of it.

Each message says what is wrong and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta


class MainspringError(Exception):
    """The base of all errors raised by Mainspring."""

    outage: bool | None = None
    """To breakers, they say nothing of what a handler needs, unless one knows better."""


class ConfigurationError(MainspringError, ValueError):
    """A setting or an argument is wrong. Nothing was changed."""


class InvalidJob(ConfigurationError):
    """A job cannot be scheduled as asked."""


class InvalidSchedule(ConfigurationError):
    """A schedule, a rule or a calendar cannot be used as written."""


class InvalidCron(InvalidSchedule):
    """A cron expression is wrong: at which `position` (from 0), and what was expected there."""

    def __init__(self, message: str, expression: str, position: int) -> None:
        super().__init__(message)
        self.expression = expression
        self.position = position

    def __reduce__(self) -> tuple[type[InvalidCron], tuple[str, str, int]]:
        return type(self), (str(self), self.expression, self.position)


class HandlerError(ConfigurationError):
    """A handler cannot be registered as written."""


class InvalidKey(ConfigurationError):
    """A text is no API key. The message never shows any of it."""


class JobNotFound(MainspringError, LookupError):
    """No job has this id: it never existed, was deleted, or its retention ended."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"No job has the id {job_id!r}; it never existed, was deleted, or was kept long enough.")
        self.job_id = job_id

    def __reduce__(self) -> tuple[type[JobNotFound], tuple[str]]:
        return type(self), (self.job_id,)


class JobStateError(MainspringError):
    """The job's state does not allow what was asked of it."""

    def __init__(self, job_id: str, state: str, verb: str, allowed: str) -> None:
        super().__init__(f"Job {job_id} is {state}; {verb} works on {allowed} jobs only.")
        self.job_id = job_id
        self.state = state
        self._said = (job_id, state, verb, allowed)

    def __reduce__(self) -> tuple[type[JobStateError], tuple[str, str, str, str]]:
        return type(self), self._said


class ScheduleNotFound(MainspringError, LookupError):
    """No schedule has this id: it never existed, or was deleted."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"No schedule has the id {schedule_id!r}; it never existed, or was deleted.")
        self.schedule_id = schedule_id

    def __reduce__(self) -> tuple[type[ScheduleNotFound], tuple[str]]:
        return type(self), (self.schedule_id,)


class ScheduleStateError(MainspringError):
    """The schedule's state does not allow what was asked of it."""


class CalendarNotFound(MainspringError, LookupError):
    """No calendar has this name: it never existed, or was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No calendar has the name {name!r}; store one with put_calendar().")
        self.name = name

    def __reduce__(self) -> tuple[type[CalendarNotFound], tuple[str]]:
        return type(self), (self.name,)


class RedriveNotFound(MainspringError, LookupError):
    """No redrive has this id: it never existed, or was kept long enough."""

    def __init__(self, redrive_id: str) -> None:
        super().__init__(f"No redrive has the id {redrive_id!r}; it never existed, or was kept long enough.")
        self.redrive_id = redrive_id

    def __reduce__(self) -> tuple[type[RedriveNotFound], tuple[str]]:
        return type(self), (self.redrive_id,)


class KeyNotFound(MainspringError, LookupError):
    """No API key has this id, or it is revoked or expired."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"There is no API key {key_id!r:.50} in force; list those that are there.")
        self.key_id = key_id

    def __reduce__(self) -> tuple[type[KeyNotFound], tuple[str]]:
        return type(self), (self.key_id,)


class SecretNotFound(MainspringError, LookupError):
    """No secret has this name: it was never stored, or was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no secret {name!r}; store it with put_secret(), or PUT /api/secrets/{name}.")
        self.name = name

    def __reduce__(self) -> tuple[type[SecretNotFound], tuple[str]]:
        return type(self), (self.name,)


class QueueFull(MainspringError):
    """The queue has as many pending jobs as `limit_queue(max_pending=…)` allows. Nothing was stored."""

    def __init__(self, queue: str, max_pending: int) -> None:
        super().__init__(
            f"The queue {queue!r} has {max_pending:,} pending jobs, as many as it may. Schedule again later, start "
            'more workers, let producers wait with limit_queue(…, when_full="wait"), or raise max_pending.'
        )
        self.queue = queue
        self.max_pending = max_pending

    def __reduce__(self) -> tuple[type[QueueFull], tuple[str, int]]:
        return type(self), (self.queue, self.max_pending)


class BulkError(MainspringError):
    """Some items of a bulk were refused; the others are stored, unless the bulk was part of a transaction.

    `jobs` holds one entry per item, in order: the job, or None where none was stored.
    `errors` maps the position of each refused item to the reason.
    """

    def __init__(self, jobs: list[object | None], errors: dict[int, Exception]) -> None:
        first = next(iter(sorted(errors.items())))
        kept = "the others are stored" if any(job is not None for job in jobs) else "nothing is stored"
        super().__init__(
            f"{len(errors)} of {len(jobs)} items were refused, {kept}; the first refused is item {first[0]}: {first[1]}"
        )
        self.jobs = jobs
        self.errors = errors

    def __reduce__(self) -> tuple[type[BulkError], tuple[list[object | None], dict[int, Exception]]]:
        return type(self), (self.jobs, self.errors)


class ArchiveError(MainspringError):
    """Finished jobs were not deleted: the archive hook has raised, or only other processes have it."""


class ClaimLost(MainspringError):
    """The claim on this job ran out or was taken by somebody else; this holder's result was not recorded."""


class StepError(MainspringError):
    """A step cannot be run or kept as it was asked for. The job fails at once: the next attempt would meet the same."""


class WaitTimeout(MainspringError, TimeoutError):
    """The job did not end in time. It goes on; wait again, or cancel it."""


class Unavailable(MainspringError, ConnectionError):
    """MongoDB cannot be reached or did not answer in time."""


class UnsupportedServer(MainspringError):
    """The MongoDB server is too old or lacks what was asked for."""


class EmbeddedError(MainspringError):
    """The embedded mongod cannot be found, started or used."""


class Signal(Exception):
    """The base of what a handler raises to choose how its attempt ends."""


class _Delayed(Signal):
    def __init__(self, delay: float | timedelta, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        self.reason = str(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.delay, self.reason)


class RetryAfter(_Delayed):
    """End this attempt as failed and try again after `delay`, while attempts are left. `details`, a small mapping, is
    kept with the attempt's error."""

    def __init__(
        self, delay: float | timedelta, reason: str = "", *, details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(delay, reason)
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.delay, self.reason), {"details": self.details}


class Snooze(_Delayed):
    """Put the job back and run it again after `delay`; this try costs no attempt."""


class _Reasoned(Signal):
    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Cancel(_Reasoned):
    """End the job as cancelled."""


class Fail(_Reasoned):
    """End the job as failed now, whatever attempts are left. With `outage` False, breakers take it for a sign that what
    the job needs is up, and with None for none at all. `details`, a small mapping, is kept with the error."""

    def __init__(
        self, reason: str = "", *, outage: bool | None = True, details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(reason)
        self.outage = outage
        self.details = details
