"""The names and signatures that users rely on, pinned: changing one here is changing the product."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import mainspring
import mainspring.sync
from mainspring import errors
from mainspring.model.schedule import ScheduleOptions

SCHEDULER_VERBS = {
    "created": (
        "(self, limit: 'int' = 100, *, skip: 'int' = 0, kind: 'str | None' = None, queues: 'Sequence[str] | None' = "
        "None, prefixes: 'Sequence[str] | None' = None, after: 'str | None' = None) -> 'CreatedPage[Job | Schedule]'"
    ),
    "find_replies": "(self, keys: 'Sequence[str]') -> 'dict[str, Reply]'",
    "forget_reply": "(self, key: 'str') -> 'None'",
    "keep_replies": "(self, replies: 'Mapping[str, Reply]') -> 'None'",
    "keep_reply": "(self, key: 'str', status: 'int', body: 'str') -> 'None'",
    "open_reply": "(self, key: 'str', print: 'str') -> 'Reply'",
    "any_api_key": "(self) -> 'bool'",
    "api_keys": "(self) -> 'list[Key]'",
    "archive": "(self, function: 'F') -> 'F'",
    "backfill": (
        "(self, schedule_id: 'str', start: 'datetime', end: 'datetime', *, which: 'str' = 'not_run', limit: 'int' "
        "= 1000, actor: 'str | None' = None, backfill_id: 'str | None' = None) -> 'Backfill'"
    ),
    "breakers": "(self) -> 'list[BreakerStatus]'",
    "calendars": "(self) -> 'list[StoredCalendar]'",
    "cancel": "(self, job_id: 'str', reason: 'str' = '') -> 'Job'",
    "cancel_redrive": "(self, redrive_id: 'str') -> 'Redrive'",
    "changes": (
        "(self, *, before: 'int | None' = None, limit: 'int' = 50, actor: 'str | None' = None, target: 'str | None'"
        " = None) -> 'list[Row]'"
    ),
    "check_api_key": "(self, text: 'str') -> 'Key | None'",
    "close_breaker": (
        "(self, *, name: 'str | None' = None, queue: 'str | None' = None, key: 'Mapping[str, Any] | None' = None, "
        "reason: 'str' = '', actor: 'str | None' = None) -> 'BreakerStatus'"
    ),
    "configure": "(self, uri: 'str | None' = None, **options: 'Any') -> 'Self'",
    "connect": "(self) -> 'Self'",
    "create_api_key": (
        "(self, name: 'str', role: 'str' = 'operator', *, queues: 'Sequence[str] | None' = None, prefixes: "
        "'Sequence[str] | None' = None, expires_at: 'datetime | None' = None, actor: 'str | None' = None, "
        "key_id: 'str | None' = None) -> 'NewKey'"
    ),
    "cron": (
        "(self, expression: 'str', *, timezone: 'str' = 'UTC', gap: 'Gap' = 'after', fold: 'Fold' = 'first', "
        "name: 'str | None' = None, data: 'Mapping[str, Any] | None' = None, schedule_id: 'str | None' = None, "
        "**options: 'Any') -> 'Callable[[F], F]'"
    ),
    "dead_letter_groups": "(self, **filter: 'Unpack[DeadLetterFilter]') -> 'list[DeadLetterGroup]'",
    "dead_letter_handler": (
        "(self, name: 'str' = 'mainspring:dead-letter', *, every: 'timedelta | str | float | None' = None, retry: "
        "'Retry | int | None' = None, timeout: 'Seconds | None' = None, queue: 'str | None' = None, priority: 'int "
        "| None' = None) -> 'Callable[[F], F]'"
    ),
    "dead_letters": (
        "(self, *, limit: 'int | None' = None, after: 'Job | None' = None, **filter: 'Unpack[DeadLetterFilter]') "
        "-> 'AsyncIterator[Job]'"
    ),
    "delete": "(self, job_id: 'str') -> 'None'",
    "delete_calendar": "(self, name: 'str') -> 'None'",
    "delete_schedule": "(self, schedule_id: 'str') -> 'None'",
    "delete_secret": "(self, name: 'str') -> 'Secret'",
    "discard_dead_letters": (
        "(self, ids: 'Sequence[str] | str | None' = None, *, everything: 'bool' = False, reason: 'str' = '', "
        "actor: 'str | None' = None, redrive_id: 'str | None' = None, **filter: 'Unpack[DeadLetterFilter]') -> "
        "'Redrive'"
    ),
    "edit_schedule": (
        "(self, schedule_id: 'str', *, repeat: 'Rule | None' = None, data: 'Mapping[str, Any] | None' = None, "
        "queue: 'str | None' = None, priority: 'int | None' = None, tags: 'Sequence[str] | None' = None, timeout: "
        "'Seconds | None' = None, retry: 'Retry | int | None' = None, executes: 'str | None' = None, start_within: "
        "'Seconds | None' = None, "
        "remove: 'Sequence[str]' = (), **options: 'Unpack[ScheduleOptions]') -> 'Schedule'"
    ),
    "every": (
        "(self, period: 'timedelta | str | float', *, anchor: 'datetime | None' = None, after: 'str' = 'start', "
        "name: 'str | None' = None, data: 'Mapping[str, Any] | None' = None, schedule_id: 'str | None' = None, "
        "**options: 'Any') -> 'Callable[[F], F]'"
    ),
    "explain": "(self, job_id: 'str') -> 'Explanation'",
    "get_api_key": "(self, key: 'str') -> 'Key | None'",
    "follow": (
        "(self, *, name: 'str | None' = None, queue: 'str | None' = None, id: 'str | None' = None, state: 'str | None' "
        "= None, after: 'str | None' = None, beat: 'Seconds | None' = None, scope: 'Scope' = Scope(queues=None, "
        "prefixes=None)) -> 'AsyncIterator[Change]'"
    ),
    "failures": "(self, limit: 'int' = 20, *, scope: 'Scope' = Scope(queues=None, prefixes=None)) -> 'list[Job]'",
    "health": "(self) -> 'Health'",
    "statistics": (
        "(self, start: 'datetime', end: 'datetime | None' = None, *, "
        "step: 'Seconds' = datetime.timedelta(seconds=3600), "
        "name: 'str | None' = None, queue: 'str | None' = None, scope: 'Scope' = Scope(queues=None, prefixes=None)) -> "
        "'Statistics'"
    ),
    "get_calendar": "(self, name: 'str') -> 'StoredCalendar'",
    "get_job": "(self, job_id: 'str') -> 'Job'",
    "get_redrive": "(self, redrive_id: 'str') -> 'Redrive'",
    "get_schedule": "(self, schedule_id: 'str') -> 'Schedule'",
    "get_secret": "(self, name: 'str') -> 'Secret'",
    "hurry": "(self) -> 'None'",
    "import_calendar": (
        "(self, name: 'str', ics: 'str | bytes', *, timezone: 'str | None' = None, actor: 'str | None' = None) -> "
        "'StoredCalendar'"
    ),
    "in_transaction": ("(self, function: 'Callable[[Transaction], Awaitable[T]]', *, timeout: 'Seconds' = 60) -> 'T'"),
    "job": (
        "(self, name: 'str | None' = None, *, retry: 'Retry | int | None' = None, executes: 'str | None' = None, "
        "timeout: 'Seconds | None' = None, isolation: 'str' = 'auto', queue: 'str | None' = None, priority: 'int | "
        "None' = None, concurrency: 'int | Limit | None' = None, rate: 'str | Rate | None' = None, sequence: 'str | "
        "Sequence | None' = None, "
        "fair: 'str | None' = None, breaker: 'Breaker | None' = None, version: 'int' = 1, lift: 'Mapping[int, Lift] | "
        "None' = None, encrypt: 'bool | list[str] | tuple[str, ...] | None' = None, redact: 'list[str] | "
        "tuple[str, ...] | None' = None) -> 'Callable[[F], F]'"
    ),
    "jobs": (
        "(self, *, state: 'str | None' = None, name: 'str | None' = None, queue: 'str | None' = None, tag: 'str | "
        "None' = None, schedule_id: 'str | None' = None, limit: 'int | None' = None) -> 'AsyncIterator[Job]'"
    ),
    "keys_in_use": "(self) -> 'dict[str, int]'",
    "ledger": "(self, schedule_id: 'str', start: 'datetime', end: 'datetime', *, limit: 'int' = 1000) -> 'list[Entry]'",
    "limit_queue": (
        "(self, queue: 'str', *, concurrency: 'int | Limit | None' = None, rate: 'str | Rate | None' = None, "
        "breaker: 'Breaker | None' = None, max_pending: 'int | None' = None, when_full: 'str | None' = None) -> "
        "'None'"
    ),
    "limits": "(self) -> 'list[LimitStatus]'",
    "middleware": "(self, function: 'Middleware') -> 'Middleware'",
    "note_change": "(self, *entries: 'Entry') -> 'list[Row]'",
    "now": "(self) -> 'datetime'",
    "off": "(self, event: 'str', callback: 'Callback') -> 'None'",
    "on": "(self, event: 'str', callback: 'Callback | None' = None) -> 'Any'",
    "on_start": "(self, function: 'F') -> 'F'",
    "on_stop": "(self, function: 'F') -> 'F'",
    "open_breaker": (
        "(self, *, name: 'str | None' = None, queue: 'str | None' = None, key: 'Mapping[str, Any] | None' = None, "
        "open_for: 'Seconds | None' = None, reason: 'str' = '', actor: 'str | None' = None) -> 'BreakerStatus'"
    ),
    "override_limit": (
        "(self, *, name: 'str | None' = None, queue: 'str | None' = None, concurrency: 'int | Limit | None' = "
        "None, rate: 'str | Rate | None' = None, reason: 'str' = '', actor: 'str | None' = None) -> "
        "'LimitOverride'"
    ),
    "pause": (
        "(self, *, queue: 'str | None' = None, name: 'str | None' = None, key: 'Mapping[str, Any] | None' = None, "
        "reason: 'str' = '', actor: 'str | None' = None) -> 'Paused'"
    ),
    "pause_schedule": "(self, schedule_id: 'str', reason: 'str' = '', *, actor: 'str | None' = None) -> 'Schedule'",
    "pauses": "(self) -> 'list[Paused]'",
    "preview": (
        "(self, rule: 'Rule', count: 'int' = 10, *, start: 'datetime | None' = None, schedule_id: 'str' = "
        "'preview', start_at: 'datetime | None' = None, end_at: 'datetime | None' = None, jitter: 'Seconds' = "
        "0.0) -> 'list[Firing]'"
    ),
    "preview_backfill": (
        "(self, schedule_id: 'str', start: 'datetime', end: 'datetime', *, which: 'str' = 'not_run', limit: 'int' "
        "= 1000) -> 'list[Entry]'"
    ),
    "put_calendar": "(self, name: 'str', calendar: 'Calendar', *, actor: 'str | None' = None) -> 'StoredCalendar'",
    "put_secret": (
        "(self, name: 'str', value: 'str', *, keep_old: 'Seconds' = 0, actor: 'str | None' = None) -> 'Secret'"
    ),
    "queues": "(self) -> 'list[QueueStatus]'",
    "redrives": "(self, limit: 'int' = 100) -> 'list[Redrive]'",
    "remove_override": "(self, *, name: 'str | None' = None, queue: 'str | None' = None) -> 'LimitOverride | None'",
    "rescue_worker": "(self, worker_id: 'str') -> 'list[Job]'",
    "reseal": "(self) -> 'int'",
    "resume": (
        "(self, *, queue: 'str | None' = None, name: 'str | None' = None, key: 'Mapping[str, Any] | None' = None) "
        "-> 'Paused | None'"
    ),
    "resume_schedule": "(self, schedule_id: 'str') -> 'Schedule'",
    "retry": "(self, job_id: 'str', *, request_id: 'str | None' = None) -> 'Job'",
    "retry_dead_letters": (
        "(self, ids: 'Sequence[str] | str | None' = None, *, everything: 'bool' = False, data: 'Mapping[str, Any] "
        "| None' = None, remove: 'Sequence[str]' = (), reason: 'str' = '', actor: 'str | None' = None, "
        "redrive_id: 'str | None' = None, **filter: 'Unpack[DeadLetterFilter]') -> 'Redrive'"
    ),
    "revoke_api_key": "(self, key: 'str') -> 'Key'",
    "rotate_api_key": "(self, key: 'str', grace: 'Seconds' = 0, *, request_id: 'str | None' = None) -> 'NewKey'",
    "run": "(self) -> 'None'",
    "run_now": "(self, job_id: 'str') -> 'Job'",
    "schedule": (
        "(self, name: 'str', data: 'Mapping[str, Any] | None' = None, *, run_at: 'datetime | None' = None, delay: "
        "'Seconds | None' = None, priority: 'int | None' = None, queue: 'str | None' = None, dedupe_key: 'str | "
        "None' = None, dedupe_window: 'Seconds | None' = None, debounce: 'Seconds | None' = None, debounce_max: "
        "'Seconds | None' = None, throttle: 'Seconds | None' = None, expires_at: 'datetime | None' = None, "
        "start_within: 'Seconds | None' = None, timeout: 'Seconds | None' = None, retry: 'Retry | int | None' = "
        "None, executes: 'str | None' = None, tags: 'Sequence[str] | None' = None, version: 'int | None' = None, "
        "encrypt: 'bool | "
        "Sequence[str] | None' = None, session: 'Any' = None, parent_id: "
        "'str | None' = None, job_id: 'str | None' = None, "
        "repeat: 'Rule | None' = None, schedule_id: 'str | None' = None, **options: 'Unpack[ScheduleOptions]') -> "
        "'Job | Schedule'"
    ),
    "schedule_bulk": "(self, items: 'Iterable[Mapping[str, Any]]', *, session: 'Any' = None) -> 'list[Job]'",
    "schedules": (
        "(self, *, state: 'str | None' = None, name: 'str | None' = None, tag: 'str | None' = None, after: 'str | "
        "None' = None) -> 'AsyncIterator[Schedule]'"
    ),
    "search": (
        "(self, *, state: 'str | None' = None, name: 'str | None' = None, queue: 'str | None' = None, tag: 'str | "
        "None' = None, schedule_id: 'str | None' = None, parent_id: 'str | None' = None, since: 'datetime | None' = "
        "None, until: 'datetime | None' = None, data: 'Mapping[str, Any] | None' = None, scope: 'Scope | None' = "
        "None, limit: 'int' = 50, after: 'str | None' = None) -> 'SearchPage'"
    ),
    "secret_value": "(self, name: 'str') -> 'str'",
    "secrets": "(self) -> 'list[Secret]'",
    "set_keys": "(self, keys: 'Mapping[str, bytes | str]') -> 'None'",
    "hidden_texts": "(self, name: 'str', data: 'Mapping[str, Any]') -> 'tuple[str, ...]'",
    "shown": "(self, job: 'Job') -> 'Job'",
    "signing_values": "(self, name: 'str') -> 'list[str]'",
    "shown_schedule": "(self, schedule: 'S') -> 'S'",
    "skip_next": (
        "(self, schedule_id: 'str', reason: 'str' = '', *, actor: 'str | None' = None, request_id: 'str | None' = "
        "None) -> 'Schedule'"
    ),
    "start": "(self) -> 'None'",
    "stop": "(self, graceful: 'bool' = True, timeout: 'Seconds' = 30) -> 'None'",
    "transaction": "(self) -> 'AbstractAsyncContextManager[Transaction]'",
    "trigger_schedule": (
        "(self, schedule_id: 'str', *, overlap: 'str | None' = None, reason: 'str' = '', actor: 'str | None' = "
        "None, job_id: 'str | None' = None) -> 'Job'"
    ),
    "upcoming": "(self, schedule_id: 'str', count: 'int' = 10) -> 'list[Firing]'",
    "update": (
        "(self, job_id: 'str', *, data: 'Mapping[str, Any] | None' = None, run_at: 'datetime | None' = None, "
        "delay: 'Seconds | None' = None, priority: 'int | None' = None, queue: 'str | None' = None, expires_at: "
        "'datetime | None' = None, start_within: 'Seconds | None' = None, timeout: 'Seconds | None' = None, "
        "retry: 'Retry | int | None' = None, tags: 'Sequence[str] | None' = None) -> 'Job'"
    ),
    "verify_changes": (
        "(self, *, first: 'int' = 1, last: 'int | None' = None, known: 'Link | None' = None) -> 'Verdict'"
    ),
    "wait": "(self, job_id: 'str', timeout: 'Seconds | None' = None) -> 'Job'",
    "workers": "(self) -> 'list[WorkerStatus]'",
}
SCHEDULE_VERBS = {
    "backfill": "(self, /, start: 'datetime', end: 'datetime', **options: 'Any') -> 'Backfill'",
    "delete": "(self) -> 'None'",
    "edit": "(self, /, **changes: 'Any') -> 'Schedule'",
    "ledger": "(self, start: 'datetime', end: 'datetime', *, limit: 'int' = 1000) -> 'list[Entry]'",
    "pause": "(self, reason: 'str' = '', *, actor: 'str | None' = None) -> 'Schedule'",
    "preview_backfill": "(self, start: 'datetime', end: 'datetime', *, which: 'str' = 'not_run') -> 'list[Entry]'",
    "refresh": "(self) -> 'Schedule'",
    "resume": "(self) -> 'Schedule'",
    "skip_next": (
        "(self, reason: 'str' = '', *, actor: 'str | None' = None, request_id: 'str | None' = None) -> 'Schedule'"
    ),
    "trigger": (
        "(self, *, overlap: 'str | None' = None, reason: 'str' = '', actor: 'str | None' = None, "
        "job_id: 'str | None' = None) -> 'Job'"
    ),
    "upcoming": "(self, count: 'int' = 10) -> 'list[Firing]'",
}
PROPERTIES = {"client", "handler_names", "uri"}


def _methods(face: type) -> set[str]:
    return {name for name, value in _members(face).items() if not name.startswith("_") and inspect.isfunction(value)}


def _properties(face: type) -> set[str]:
    return {name for name, value in _members(face).items() if isinstance(value, property)}


def test_the_package_exports_these_names_and_no_others() -> None:
    assert mainspring.__all__ == [
        "AnyOf",
        "ApiKey",
        "ArchiveError",
        "At",
        "Attempt",
        "AuditEntry",
        "AuditRow",
        "AuditVerdict",
        "Backfill",
        "Breaker",
        "BreakerStatus",
        "BulkError",
        "Calendar",
        "CalendarNotFound",
        "Cancel",
        "Change",
        "ClaimLost",
        "ConfigurationError",
        "Counts",
        "Cron",
        "DeadLetterGroup",
        "EmbeddedError",
        "Every",
        "Except",
        "ExplainedGate",
        "Explanation",
        "Fail",
        "Firing",
        "GateUse",
        "HandlerError",
        "Health",
        "Held",
        "InvalidCron",
        "InvalidJob",
        "InvalidKey",
        "InvalidSchedule",
        "Job",
        "JobContext",
        "JobError",
        "JobNotFound",
        "JobStateError",
        "Keep",
        "KeyNotFound",
        "LedgerEntry",
        "Limit",
        "LimitOverride",
        "LimitStatus",
        "MainspringError",
        "NewApiKey",
        "Notice",
        "Pause",
        "Paused",
        "Progress",
        "QueueFull",
        "RRule",
        "Rate",
        "Redrive",
        "RedriveNotFound",
        "Retry",
        "RetryAfter",
        "Rule",
        "Schedule",
        "ScheduleNotFound",
        "ScheduleStateError",
        "Scheduler",
        "Sealed",
        "Secret",
        "SecretNotFound",
        "Sequence",
        "Signal",
        "Snooze",
        "Statistics",
        "Step",
        "StepError",
        "Unavailable",
        "UnsupportedServer",
        "WaitTimeout",
    ]
    assert all(hasattr(mainspring, name) for name in mainspring.__all__)
    assert mainspring.sync.__all__ == ["JobContext", "Redrive", "Schedule", "Scheduler"]


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


@pytest.mark.parametrize(
    "verb", sorted(set(SCHEDULER_VERBS) - {"jobs", "schedules", "dead_letters", "transaction", "connect"})
)
def test_a_verb_takes_the_same_arguments_in_both_faces(verb: str) -> None:
    ours = inspect.signature(getattr(mainspring.Scheduler("mongodb://127.0.0.1:1/x"), verb))
    theirs = inspect.signature(getattr(mainspring.sync.Scheduler("mongodb://127.0.0.1:1/x"), verb))
    assert list(ours.parameters) == list(theirs.parameters)
    assert [p.default for p in ours.parameters.values()] == [p.default for p in theirs.parameters.values()]


def test_a_schedule_has_these_verbs_with_these_signatures_in_both_faces() -> None:
    signatures = {
        name: str(inspect.signature(getattr(mainspring.Schedule, name))) for name in _methods(mainspring.Schedule)
    }
    assert signatures == SCHEDULE_VERBS
    assert _methods(mainspring.sync.Schedule) == set(SCHEDULE_VERBS)
    for name in SCHEDULE_VERBS:
        ours, theirs = getattr(mainspring.Schedule, name), getattr(mainspring.sync.Schedule, name)
        assert (ours.__doc__, inspect.signature(ours)) == (theirs.__doc__, inspect.signature(theirs))


def test_a_schedule_has_what_was_promised_in_both_faces() -> None:
    promised = (
        "id name data rule state next_at due_at last_at last_job_id runs failures paused queue priority created_at "
        "updated_at start_at end_at jitter policy pause_after tags declared_by rev retry executes timeout start_within "
        "kept"
    )
    for kind in (mainspring.Schedule, mainspring.sync.Schedule):
        assert set(promised.split()) == {name for name in kind.__dataclass_fields__ if not name.startswith("_")}


def test_a_schedule_takes_these_options() -> None:
    assert set(ScheduleOptions.__annotations__) == {
        "end_at",
        "jitter",
        "max_runs",
        "misfire",
        "misfire_grace",
        "misfire_limit",
        "overlap",
        "pause_after",
        "paused",
        "start_at",
        "start_deadline",
    }


def test_a_redrive_has_what_was_promised_in_both_faces() -> None:
    promised = "id kind state matched done skipped started_at finished_at actor reason skips"
    for kind in (mainspring.Redrive, mainspring.sync.Redrive):
        assert promised.split() == [name for name in kind.__dataclass_fields__ if not name.startswith("_")]
        assert _methods(kind) == {"refresh", "wait", "cancel"}
        assert _properties(kind) == {"finished", "progress"}


def test_a_group_of_dead_letters_has_what_was_promised() -> None:
    promised = "fingerprint name error_type message count first_seen last_seen sample_job_id"
    assert list(mainspring.DeadLetterGroup.__dataclass_fields__) == promised.split()


@pytest.mark.parametrize("kind", [mainspring.Cron, mainspring.Every, mainspring.At, mainspring.RRule])
def test_a_rule_answers_what_was_promised(kind: type) -> None:
    promised = "next previous between count describe notes zones calendars bind to_document from_document skipped"
    assert set(promised.split()) <= set(dir(kind))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (mainspring.LedgerEntry, "at outcome reason late_by job_id actor"),
        (mainspring.Notice, "schedule_id name at until outcome reason late_by job_id count"),
        (mainspring.Firing, "at due notes"),
        (mainspring.Pause, "at reason actor"),
        (mainspring.Backfill, "id schedule_id start end which made done actor"),
    ],
)
def test_what_the_verbs_of_schedules_return_has_what_was_promised(kind: Any, fields: str) -> None:
    assert list(kind.__dataclass_fields__) == fields.split()


def test_a_scheduler_takes_these_options() -> None:
    parameters = inspect.signature(mainspring.Scheduler.__init__).parameters
    assert list(parameters) == [*("self", "uri", "client", "handler", "retry", "retention", "keys", "clock", "options")]
    assert set(mainspring.config.Settings.__dataclass_fields__) == {
        "aging",
        "app",
        "collection",
        "concurrency",
        "database",
        "encrypt",
        "grace",
        "keep_failed",
        "keep_finished",
        "keep_ledger",
        "keep_stats",
        "lease",
        "max_data",
        "max_result",
        "operation_timeout",
        "poll_interval",
        "prefetch",
        "queues",
        "redact",
        "timeout",
        "undeclared",
    }


def test_a_job_has_what_was_promised() -> None:
    promised = (
        "id name data state queue priority run_at created_at attempts result error tags progress token schedule_id "
        "scheduled_for steps data_version encrypted key_ids deduplicated finished"
    )
    assert set(promised.split()) <= {*dir(mainspring.Job), *mainspring.Job.__dataclass_fields__}


def test_a_context_has_what_was_promised_in_both_faces() -> None:
    promised = "id name data queue priority attempt token progress log is_cancelled schedule step transaction"
    promised += " idempotency_key"
    assert set(promised.split()) <= set(dir(mainspring.JobContext))
    assert set(promised.split()) <= set(dir(mainspring.sync.JobContext))


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (errors.ConfigurationError, (errors.MainspringError, ValueError)),
        (errors.InvalidJob, (errors.ConfigurationError,)),
        (errors.HandlerError, (errors.ConfigurationError,)),
        (errors.InvalidKey, (errors.ConfigurationError,)),
        (errors.KeyNotFound, (errors.MainspringError, LookupError)),
        (errors.InvalidSchedule, (errors.ConfigurationError,)),
        (errors.InvalidCron, (errors.InvalidSchedule,)),
        (errors.ScheduleNotFound, (errors.MainspringError, LookupError)),
        (errors.ScheduleStateError, (errors.MainspringError,)),
        (errors.CalendarNotFound, (errors.MainspringError, LookupError)),
        (errors.JobNotFound, (errors.MainspringError, LookupError)),
        (errors.JobStateError, (errors.MainspringError,)),
        (errors.RedriveNotFound, (errors.MainspringError, LookupError)),
        (errors.QueueFull, (errors.MainspringError,)),
        (errors.BulkError, (errors.MainspringError,)),
        (errors.ArchiveError, (errors.MainspringError,)),
        (errors.ClaimLost, (errors.MainspringError,)),
        (errors.StepError, (errors.MainspringError,)),
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
