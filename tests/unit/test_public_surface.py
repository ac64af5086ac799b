"""The names and signatures that users rely on, pinned: changing one here is changing the product."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import mainspring
import mainspring.sync
from mainspring import errors

SCHEDULER_VERBS = {
    "cancel": "(self, job_id: 'str', reason: 'str' = '') -> 'Job'",
    "configure": "(self, uri: 'str | None' = None, **options: 'Any') -> 'Self'",
    "connect": "(self) -> 'Self'",
    "delete": "(self, job_id: 'str') -> 'None'",
    "explain": "(self, job_id: 'str') -> 'Explanation'",
    "get_job": "(self, job_id: 'str') -> 'Job'",
    "hurry": "(self) -> 'None'",
    "job": (
        "(self, name: 'str | None' = None, *, retry: 'Retry | int | None' = None, timeout: 'Seconds | None' = None, "
        "isolation: 'str' = 'auto', queue: 'str | None' = None, priority: 'int | None' = None) "
        "-> 'Callable[[F], F]'"
    ),
    "jobs": (
        "(self, *, state: 'str | None' = None, name: 'str | None' = None, queue: 'str | None' = None, "
        "tag: 'str | None' = None, limit: 'int | None' = None) -> 'AsyncIterator[Job]'"
    ),
    "limit_queue": (
        "(self, queue: 'str', *, concurrency: 'int | Limit | None' = None, rate: 'str | Rate | None' = None, "
        "breaker: 'Breaker | None' = None, max_pending: 'int | None' = None, when_full: 'str | None' = None) -> 'None'"
    ),
    "middleware": "(self, function: 'Middleware') -> 'Middleware'",
    "off": "(self, event: 'str', callback: 'Callback') -> 'None'",
    "on": "(self, event: 'str', callback: 'Callback | None' = None) -> 'Any'",
    "on_start": "(self, function: 'F') -> 'F'",
    "on_stop": "(self, function: 'F') -> 'F'",
    "rescue_worker": "(self, worker_id: 'str') -> 'list[Job]'",
    "retry": "(self, job_id: 'str') -> 'Job'",
    "run": "(self) -> 'None'",
    "run_now": "(self, job_id: 'str') -> 'Job'",
    "schedule": (
        "(self, name: 'str', data: 'Mapping[str, Any] | None' = None, *, run_at: 'datetime | None' = None, "
        "delay: 'Seconds | None' = None, priority: 'int | None' = None, queue: 'str | None' = None, "
        "dedupe_key: 'str | None' = None, dedupe_window: 'Seconds | None' = None, "
        "debounce: 'Seconds | None' = None, debounce_max: 'Seconds | None' = None, "
        "throttle: 'Seconds | None' = None, "
        "expires_at: 'datetime | None' = None, start_within: 'Seconds | None' = None, "
        "timeout: 'Seconds | None' = None, retry: 'Retry | int | None' = None, tags: 'Sequence[str] | None' = None, "
        "session: 'Any' = None, parent_id: 'str | None' = None, repeat: 'Rule | None' = None, "
        "schedule_id: 'str | None' = None, **options: 'Unpack[ScheduleOptions]') -> 'Job | Schedule'"
    ),
    "schedule_bulk": "(self, items: 'Iterable[Mapping[str, Any]]', *, session: 'Any' = None) -> 'list[Job]'",
    "start": "(self) -> 'None'",
    "stop": "(self, graceful: 'bool' = True, timeout: 'Seconds' = 30) -> 'None'",
    "transaction": "(self) -> 'AbstractAsyncContextManager[Transaction]'",
    "update": (
        "(self, job_id: 'str', *, data: 'Mapping[str, Any] | None' = None, run_at: 'datetime | None' = None, "
        "delay: 'Seconds | None' = None, priority: 'int | None' = None, queue: 'str | None' = None, "
        "expires_at: 'datetime | None' = None, start_within: 'Seconds | None' = None, "
        "timeout: 'Seconds | None' = None, retry: 'Retry | int | None' = None, "
        "tags: 'Sequence[str] | None' = None) -> 'Job'"
    ),
    "wait": "(self, job_id: 'str', timeout: 'Seconds | None' = None) -> 'Job'",
}
PROPERTIES = {"client", "handler_names", "uri"}


def _methods(face: type) -> set[str]:
    return {name for name, value in _members(face).items() if not name.startswith("_") and inspect.isfunction(value)}


def _properties(face: type) -> set[str]:
    return {name for name, value in _members(face).items() if isinstance(value, property)}


def test_the_package_exports_these_names_and_no_others() -> None:
    assert mainspring.__all__ == [
        "Attempt",
        "BulkError",
        "Cancel",
        "ClaimLost",
        "ConfigurationError",
        "EmbeddedError",
        "ExplainedGate",
        "Explanation",
        "Fail",
        "HandlerError",
        "Held",
        "InvalidJob",
        "Job",
        "JobContext",
        "JobError",
        "JobNotFound",
        "JobStateError",
        "MainspringError",
        "Progress",
        "QueueFull",
        "Retry",
        "RetryAfter",
        "Scheduler",
        "Signal",
        "Snooze",
        "Unavailable",
        "UnsupportedServer",
        "WaitTimeout",
    ]
    assert all(hasattr(mainspring, name) for name in mainspring.__all__)
    assert mainspring.sync.__all__ == ["JobContext", "Scheduler"]


def test_the_scheduler_has_these_verbs_with_these_signatures() -> None:
    signatures = {
        name: str(inspect.signature(getattr(mainspring.Scheduler, name))) for name in _methods(mainspring.Scheduler)
    }
    assert signatures == SCHEDULER_VERBS
    assert _properties(mainspring.Scheduler) == PROPERTIES


def test_the_blocking_face_has_the_same_verbs() -> None:
    face = mainspring.sync.Scheduler("mongodb://127.0.0.1:1/x")
    verbs = {name for name in dir(face) if not name.startswith("_") and callable(getattr(type(face), name, None))}
    registering = {name for name, value in vars(face).items() if inspect.ismethod(value)}
    assert (verbs | registering) - {"loop_factory"} == set(SCHEDULER_VERBS)
    assert _properties(mainspring.sync.Scheduler) == PROPERTIES


@pytest.mark.parametrize("verb", sorted(set(SCHEDULER_VERBS) - {"jobs", "transaction", "connect"}))
def test_a_verb_takes_the_same_arguments_in_both_faces(verb: str) -> None:
    ours = inspect.signature(getattr(mainspring.Scheduler("mongodb://127.0.0.1:1/x"), verb))
    theirs = inspect.signature(getattr(mainspring.sync.Scheduler("mongodb://127.0.0.1:1/x"), verb))
    assert list(ours.parameters) == list(theirs.parameters)
    assert [p.default for p in ours.parameters.values()] == [p.default for p in theirs.parameters.values()]


def test_a_scheduler_takes_these_options() -> None:
    parameters = inspect.signature(mainspring.Scheduler.__init__).parameters
    assert list(parameters) == ["self", "uri", "client", "handler", "retry", "clock", "options"]
    assert set(mainspring.config.Settings.__dataclass_fields__) == {
        "aging",
        "collection",
        "concurrency",
        "database",
        "grace",
        "keep_failed",
        "keep_finished",
        "lease",
        "max_data",
        "max_result",
        "operation_timeout",
        "poll_interval",
        "prefetch",
        "queues",
        "timeout",
    }


def test_a_job_has_what_was_promised() -> None:
    promised = (
        "id name data state queue priority run_at created_at attempts result error tags progress token schedule_id "
        "scheduled_for deduplicated finished"
    )
    assert set(promised.split()) <= {*dir(mainspring.Job), *mainspring.Job.__dataclass_fields__}


def test_a_context_has_what_was_promised_in_both_faces() -> None:
    promised = "id name data queue priority attempt token progress log is_cancelled schedule transaction"
    assert set(promised.split()) <= set(dir(mainspring.JobContext))
    assert set(promised.split()) <= set(dir(mainspring.sync.JobContext))


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (errors.ConfigurationError, (errors.MainspringError, ValueError)),
        (errors.InvalidJob, (errors.ConfigurationError,)),
        (errors.HandlerError, (errors.ConfigurationError,)),
        (errors.JobNotFound, (errors.MainspringError, LookupError)),
        (errors.JobStateError, (errors.MainspringError,)),
        (errors.QueueFull, (errors.MainspringError,)),
        (errors.BulkError, (errors.MainspringError,)),
        (errors.ClaimLost, (errors.MainspringError,)),
        (errors.WaitTimeout, (errors.MainspringError, TimeoutError)),
        (errors.Unavailable, (errors.MainspringError, ConnectionError)),
        (errors.UnsupportedServer, (errors.MainspringError,)),
        (errors.EmbeddedError, (errors.MainspringError,)),
        (errors.RetryAfter, (errors.Signal,)),
        (errors.Snooze, (errors.Signal,)),
        (errors.Cancel, (errors.Signal,)),
        (errors.Fail, (errors.Signal,)),
    ],
)
def test_an_error_can_be_caught_by_its_base(error: type[Any], bases: tuple[type[Any], ...]) -> None:
    assert all(issubclass(error, base) for base in bases)


def test_signals_are_no_errors() -> None:
    assert not issubclass(errors.Signal, errors.MainspringError)
    assert not issubclass(errors.MainspringError, errors.Signal)


def test_every_error_and_every_module_says_what_it_is_for() -> None:
    for name in mainspring.__all__:
        assert inspect.getdoc(getattr(mainspring, name)), name


def _members(kind: type) -> dict[str, Any]:
    """What a class has, its bases of ours included."""
    members: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("mainspring"):
            members |= vars(base)
    return members
