"""Every error that Mainspring raises to its callers, and the signals that a handler can raise.

    MainspringError
    ├── ConfigurationError      a setting or an argument is wrong; nothing was changed
    │   ├── InvalidJob          a job cannot be scheduled as asked (arguments, types, size, times)
    │   │   ├── BadArguments    its data does not fit its handler's arguments
    │   │   └── InvalidFlow     a flow cannot be started as declared; names the node or the edge
    │   ├── InvalidSchedule     a schedule, a rule or a calendar cannot be used as written
    │   │   └── InvalidCron     a cron expression is wrong; says where, and what was expected
    │   ├── InvalidOperation    an operation cannot be created as asked; names the field
    │   ├── HandlerError        a handler cannot be registered as written
    │   ├── InvalidKey          a text is not an API key
    │   └── AuditKeyMissing     the audit log is signed with a key that this process does not have
    ├── JobNotFound             no job has this id
    ├── JobStateError           the job is in a state that does not allow the verb
    ├── ScheduleNotFound        no schedule has this id
    ├── ScheduleStateError      the schedule's state does not allow the verb
    ├── CalendarNotFound        no calendar has this name
    ├── RedriveNotFound         no redrive has this id
    ├── FlowNotFound            no flow has this id
    ├── FlowFailed              nodes of a flow, or jobs of a batch, ended badly; names them
    ├── MissingResult           the data of a node refers to a result that is not there
    ├── OperationNotFound       no operation has this id
    ├── WorkerNotFound          no live worker has this id
    ├── WorkerStateError        the worker's state does not allow the verb
    ├── SecretNotFound          no secret has this name
    ├── AlertRuleNotFound       no alert rule has this id
    ├── KeyNotFound             no valid API key has this id
    ├── MalformedDocument       a stored document cannot be read: another program, or a newer version, has written it
    ├── QueueFull               the queue has as many pending jobs as it may
    ├── BulkError               some items of a bulk were refused; carries the stored jobs and the errors
    ├── ArchiveError            finished jobs were not deleted, since they could not be archived
    ├── ClaimLost               the claim ran out or was taken; the result of this worker is not recorded
    ├── StepError               a step of a handler cannot be run or kept: its name, its result, its place
    │   └── NotRepeatable       a handler that is run again has made other children than at first
    ├── ChildrenFailed          more children of a handler ended badly than it tolerates
    ├── WaitTimeout             the job did not end in the time given to `wait()`
    ├── Unavailable             MongoDB cannot be reached, or did not answer in time
    ├── UnsupportedServer       the server is too old, or lacks a feature (transactions on a standalone server)
    └── EmbeddedError           the embedded mongod cannot be found, started or used

    Signal                      raised by handlers to choose how an attempt ends; not errors
    ├── RetryAfter(delay)       try again after `delay`; costs an attempt
    ├── Snooze(delay)           try again after `delay`; costs no attempt
    ├── Cancel(reason)          end as cancelled
    ├── Continue(**data)        begin anew with other data, and forget the steps; costs no attempt
    └── Fail(reason)            end as failed now, whatever attempts are left

    Suspension                  raised by `ctx.call`, `ctx.map` and the other waits of a handler to end its run until
                                the wait is over; no Exception, so that `except Exception` does not catch it

A circuit breaker counts a failed attempt as a sign that the system behind the job is down. An error or signal whose
attribute `outage` is False is a sign that this system is up, and one whose `outage` is None is not counted.

Each message states the problem and the cure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from mainspring.durations import duration_ms


class MainspringError(Exception):
    """The base of all errors raised by Mainspring."""

    outage: bool | None = None
    """Circuit breakers do not count Mainspring's own errors, unless an error says otherwise."""


class ConfigurationError(MainspringError, ValueError):
    """A setting or an argument is wrong. Nothing was changed."""


class InvalidJob(ConfigurationError):
    """A job cannot be scheduled with these arguments."""


class BadArguments(InvalidJob):
    """A job's data does not match its handler's arguments. A retry would fail in the same way."""


class InvalidFlow(InvalidJob):
    """A flow cannot be started because its graph is invalid. The message names the node or the edge. Nothing was
    stored."""


class InvalidSchedule(ConfigurationError):
    """A schedule, a rule or a calendar cannot be used as written."""


class InvalidCron(InvalidSchedule):
    """A cron expression is wrong. `position` (from 0) says where, and the message says what was expected there."""

    def __init__(self, message: str, expression: str, position: int) -> None:
        super().__init__(message)
        self.expression = expression
        self.position = position

    def __reduce__(self) -> tuple[type[InvalidCron], tuple[str, str, int]]:
        return type(self), (str(self), self.expression, self.position)


class InvalidOperation(ConfigurationError):
    """An operation on many jobs cannot be created. `field` names the wrong field, and the message says what to do."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field

    def __reduce__(self) -> tuple[type[InvalidOperation], tuple[str, str]]:
        return type(self), (str(self), self.field)


class HandlerError(ConfigurationError):
    """A handler cannot be registered as written."""


class InvalidKey(ConfigurationError):
    """A text is not an API key. The message never shows any part of it."""


class AuditKeyMissing(ConfigurationError):
    """The audit log is signed with a key that this process does not have. It can neither check the log nor append to
    it."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"The audit log is signed with the key {key_id!r:.60}, which this process does not have; add it to "
            "MAINSPRING_AUDIT_KEYS or to the file of MAINSPRING_AUDIT_KEYS_FILE. An embedded MongoDB keeps its key in "
            "the file audit.key of its folder; name the folder, for example with --data. After a move to another "
            "server, set MAINSPRING_AUDIT_KEYS_FILE=FOLDER/audit.key."
        )
        self.key_id = key_id

    def __reduce__(self) -> tuple[type[AuditKeyMissing], tuple[str]]:
        return type(self), (self.key_id,)


class JobNotFound(MainspringError, LookupError):
    """No job has this id: it never existed, was deleted, or its retention ended."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"No job has the id {job_id!r}; it never existed, was deleted, or its retention ended.")
        self.job_id = job_id

    def __reduce__(self) -> tuple[type[JobNotFound], tuple[str]]:
        return type(self), (self.job_id,)


class JobStateError(MainspringError):
    """The job's state does not allow the verb."""

    def __init__(self, job_id: str, state: str, verb: str, allowed: str, cure: str = "") -> None:
        super().__init__(f"Job {job_id} is {state}; {verb} works on {allowed} jobs only. {cure}".rstrip())
        self.job_id = job_id
        self.state = state
        self._said = (job_id, state, verb, allowed, cure)

    def __reduce__(self) -> tuple[type[JobStateError], tuple[str, str, str, str, str]]:
        return type(self), self._said


class ScheduleNotFound(MainspringError, LookupError):
    """No schedule has this id: it never existed, or was deleted."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"No schedule has the id {schedule_id!r}; it never existed, or was deleted.")
        self.schedule_id = schedule_id

    def __reduce__(self) -> tuple[type[ScheduleNotFound], tuple[str]]:
        return type(self), (self.schedule_id,)


class ScheduleStateError(MainspringError):
    """The schedule's state does not allow the verb."""


class CalendarNotFound(MainspringError, LookupError):
    """No calendar has this name: it never existed, or was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No calendar has the name {name!r}; store one with calendars.put().")
        self.name = name

    def __reduce__(self) -> tuple[type[CalendarNotFound], tuple[str]]:
        return type(self), (self.name,)


class RedriveNotFound(MainspringError, LookupError):
    """No redrive has this id: it never existed, or its retention ended."""

    def __init__(self, redrive_id: str) -> None:
        super().__init__(f"No redrive has the id {redrive_id!r}; it never existed, or its retention ended.")
        self.redrive_id = redrive_id

    def __reduce__(self) -> tuple[type[RedriveNotFound], tuple[str]]:
        return type(self), (self.redrive_id,)


class FlowNotFound(MainspringError, LookupError):
    """No flow has this id: it never existed, its retention ended, or the job with this id is not a flow."""

    def __init__(self, flow_id: str, hint: str = "") -> None:
        super().__init__(f"No flow has the id {flow_id!r:.300}; {hint or 'it never existed, or its retention ended.'}")
        self.flow_id = flow_id
        self._hint = hint

    def __reduce__(self) -> tuple[type[FlowNotFound], tuple[str, str]]:
        return type(self), (self.flow_id, self._hint)


class FlowFailed(MainspringError):
    """Nodes of a flow, or jobs of a batch, ended badly. The flow is not retried automatically, since its nodes have
    used their attempts. `scheduler.flows.retry` runs the failed jobs again, and those cancelled because of them."""


class MissingResult(MainspringError):
    """The data of a node refers to a result, or to a path in it, that does not exist. The job fails at once, since a
    retry would fail in the same way."""


class OperationNotFound(MainspringError, LookupError):
    """No operation has this id: it never existed, or its retention ended."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(f"No operation has the id {operation_id!r}; it never existed, or its retention ended.")
        self.operation_id = operation_id

    def __reduce__(self) -> tuple[type[OperationNotFound], tuple[str]]:
        return type(self), (self.operation_id,)


class WorkerNotFound(MainspringError, LookupError):
    """No live worker has this id: it never existed, or its process has ended."""

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"No live worker has the id {worker_id!r:.300}; list the workers to find the right id.")
        self.worker_id = worker_id

    def __reduce__(self) -> tuple[type[WorkerNotFound], tuple[str]]:
        return type(self), (self.worker_id,)


class WorkerStateError(MainspringError):
    """The worker's state does not allow the verb."""


class KeyNotFound(MainspringError, LookupError):
    """No API key has this id, or it is revoked or expired."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"There is no valid API key {key_id!r:.50}; list the keys to find the right id.")
        self.key_id = key_id

    def __reduce__(self) -> tuple[type[KeyNotFound], tuple[str]]:
        return type(self), (self.key_id,)


class SecretNotFound(MainspringError, LookupError):
    """No secret has this name: it was never stored, or was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no secret {name!r}; store it with secrets.put(), or PUT /api/secrets/{name}.")
        self.name = name

    def __reduce__(self) -> tuple[type[SecretNotFound], tuple[str]]:
        return type(self), (self.name,)


class AlertRuleNotFound(MainspringError, LookupError):
    """No alert rule has this id: it was deleted, or its id is mistyped."""

    def __init__(self, rule_id: str) -> None:
        super().__init__(f"There is no alert rule {rule_id!r}; alerts.all() lists them.")
        self.rule_id = rule_id

    def __reduce__(self) -> tuple[type[AlertRuleNotFound], tuple[str]]:
        return type(self), (self.rule_id,)


class MalformedDocument(MainspringError):
    """A stored document cannot be read: another program, or a newer version of Mainspring, wrote it. The message names
    the fields, but none of their values."""


class QueueFull(MainspringError):
    """The queue has as many pending jobs as `queues.limit(max_pending=…)` allows. Nothing was stored."""

    def __init__(self, queue: str, max_pending: int) -> None:
        super().__init__(
            f"The queue {queue!r} has {max_pending:,} pending jobs, its maximum. Schedule again later, start "
            'more workers, let producers wait with queues.limit(…, when_full="wait"), or raise max_pending.'
        )
        self.queue = queue
        self.max_pending = max_pending

    def __reduce__(self) -> tuple[type[QueueFull], tuple[str, int]]:
        return type(self), (self.queue, self.max_pending)


class BulkError(MainspringError):
    """Some items of a bulk call were refused. The others are stored, unless the call was part of a transaction.

    `jobs` has one entry per item, in order: the job, or None if none was stored.
    `errors` maps the position of each refused item to the reason.
    """

    def __init__(self, jobs: list[object | None], errors: dict[int, Exception]) -> None:
        first = next(iter(sorted(errors.items())))
        kept = "the others are stored" if any(job is not None for job in jobs) else "nothing is stored"
        super().__init__(
            f"{len(errors)} of {len(jobs)} items were refused, {kept}; the first refused item is {first[0]}: {first[1]}"
        )
        self.jobs = jobs
        self.errors = errors

    def __reduce__(self) -> tuple[type[BulkError], tuple[list[object | None], dict[int, Exception]]]:
        return type(self), (self.jobs, self.errors)


class ArchiveError(MainspringError):
    """Finished jobs were not deleted: the archive hook raised, or only other processes have the hook."""


class ClaimLost(MainspringError):
    """The lease on this job ran out, or another worker has claimed the job. The result of this worker is not stored."""


class StepError(MainspringError):
    """A step cannot be run, or its result cannot be stored. The job fails at once, since a retry would fail in the same
    way."""


class NotRepeatable(StepError):
    """A handler made other children in this run than in an earlier one: the items of its map differ."""


class ChildrenFailed(MainspringError):
    """More children of a handler ended badly than it tolerates. `name` is the name of the wait, `total` the number of
    children, `failed` the number that ended badly, and `errors` lists the first of these as (id, error).

    `async for child in error.completed()` (`for` in a sync handler) reads the completed children, for a compensation.
    """

    def __init__(self, name: str, total: int, failed: int, errors: tuple[tuple[str, str], ...] = ()) -> None:
        first = f" The first is {errors[0][0]}: {errors[0][1]}" if errors else ""
        super().__init__(f"{failed:,} of the {total:,} children of {name!r} ended badly.{first}")
        self.name = name
        self.total = total
        self.failed = failed
        self.errors = errors
        self._completed: Callable[[], Any] | None = None

    def reading(self, completed: Callable[[], Any]) -> ChildrenFailed:
        """The same error, with a way to read the completed children."""
        self._completed = completed
        return self

    def completed(self) -> Any:
        """The children that completed, in order, read a page at a time."""
        if self._completed is None:
            raise MainspringError("The children can be read only while the handler that waited for them runs.")
        return self._completed()

    def __reduce__(self) -> tuple[type[ChildrenFailed], tuple[str, int, int, tuple[tuple[str, str], ...]]]:
        return type(self), (self.name, self.total, self.failed, self.errors)


class WaitTimeout(MainspringError, TimeoutError):
    """The job did not end in time. It continues; wait again, or cancel it."""


class Unavailable(MainspringError, ConnectionError):
    """MongoDB cannot be reached or did not answer in time."""


class IndexesBuilding(Unavailable):
    """The query needs an index that MongoDB is still building. Retry once the build is done."""


class UnsupportedServer(MainspringError):
    """The MongoDB server is too old or lacks a feature that the call needs."""


class EmbeddedError(MainspringError):
    """The embedded mongod cannot be found, started or used."""


class Suspension(BaseException):
    """Ends the run of a handler that waits. `finally` blocks run. The handler runs again when the wait is over."""


class Signal(Exception):
    """The base of the signals that a handler raises to choose how its attempt ends."""


def _span(delay: float | timedelta | str) -> timedelta:
    if isinstance(delay, str):
        return timedelta(milliseconds=duration_ms(delay, "delay", ConfigurationError))
    return delay if isinstance(delay, timedelta) else timedelta(seconds=delay)


class _Delayed(Signal):
    def __init__(self, delay: float | timedelta | str, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = _span(delay)
        self.reason = str(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.delay, self.reason)


class RetryAfter(_Delayed):
    """End this attempt as failed and retry after `delay`, if attempts are left. `details`, a small mapping, is stored
    with the attempt's error."""

    def __init__(
        self, delay: float | timedelta | str, reason: str = "", *, details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(delay, reason)
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.delay, self.reason), {"details": self.details}


class Snooze(_Delayed):
    """Put the job back and run it again after `delay`. This uses no attempt."""


class _Reasoned(Signal):
    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Cancel(_Reasoned):
    """End the job as cancelled."""


class Continue(Signal):
    """Start the job again with this data in place of its own, and without its steps and waits. This uses no attempt. A
    handler that works forever raises it to keep its job small."""

    def __init__(self, **data: Any) -> None:
        super().__init__("the handler begins anew")
        self.data = data

    def __reduce__(self) -> tuple[object, ...]:
        return _continue, (self.data,)


def _continue(data: dict[str, Any]) -> Continue:
    return Continue(**data)


class Fail(_Reasoned):
    """End the job as failed now, even if attempts are left. With `outage=False`, circuit breakers take it as a sign
    that the system behind the job is up; with None they do not count it. `details`, a small mapping, is stored with the
    error."""

    def __init__(
        self, reason: str = "", *, outage: bool | None = True, details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(reason)
        self.outage = outage
        self.details = details
