"""The names and signatures that users rely on, pinned: changing one here is changing the product."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import mainspring
import mainspring.sync
from harness import sync_stub
from mainspring import errors
from mainspring.config.settings import Settings
from mainspring.model.schedules.schedule import ScheduleOptions

SCHEDULER = """
    archive batch cancel chain client configure connect count cron delete email every explain flow get_job
    in_transaction job jobs middleware now off on on_start on_stop outgoing retry run run_now running schedule signal
    schedule_bulk search settings start stop stop_now transaction update uri wait webhook
"""
NAMESPACES = {
    "alerts": "all create delete edit get silence test unsilence",
    "api_keys": "all create create_first get made_with revoke revoke_made_with rotate",
    "audit": "check find head seal verify",
    "calendars": "all delete get import_ics put",
    "dead_letters": "cancel_redrive discard find get_redrive groups handler redrives retry",
    "flows": "all cancel find get retry",
    "limits": "all breakers close_breaker open_breaker pause pauses remove resume set",
    "monitor": "doctor failures follow foreign_documents health name_statistics overview statistics",
    "operations": "all cancel create get preview",
    "privacy": "hidden_texts keys_in_use reencrypt set_keys shown",
    "queues": "all get limit page pause resume scale some",
    "schedules": (
        "backfill coming delete edit find get ledger pause preview preview_backfill recent resume search "
        "skip_next trigger upcoming"
    ),
    "secrets": "all delete get put value values",
    "workers": "all ask_stack cancel_drain drain handler_names handlers own_id rescue",
}
SCHEDULE = "backfill delete edit ledger pause preview_backfill refresh resume skip_next trigger upcoming"
NOWHERE = "mongodb://127.0.0.1:1/x"


def _public(thing: object) -> list[str]:
    return sorted(name for name in dir(thing) if not name.startswith("_"))


def _methods(face: type) -> set[str]:
    return {name for name, value in _members(face).items() if not name.startswith("_") and inspect.isfunction(value)}


def _properties(face: type) -> set[str]:
    return {name for name, value in _members(face).items() if isinstance(value, property)}


def test_the_package_exports_these_names_and_no_others() -> None:
    assert mainspring.__all__ == [
        "AlertDestination",
        "AlertRule",
        "AlertRuleNotFound",
        "AlertSilence",
        "AlertState",
        "AlertSubject",
        "AlertTest",
        "AnyOf",
        "ApiKey",
        "ArchiveError",
        "At",
        "Attempt",
        "AuditEntry",
        "AuditKeyMissing",
        "AuditLink",
        "AuditRow",
        "AuditVerdict",
        "Backfill",
        "BadArguments",
        "Before",
        "Breaker",
        "BreakerStatus",
        "BulkError",
        "Calendar",
        "CalendarNotFound",
        "Cancel",
        "Change",
        "ChildrenFailed",
        "ClaimLost",
        "ClockChange",
        "Coming",
        "ComingBucket",
        "ConfigurationError",
        "Continue",
        "Counts",
        "Cron",
        "Cure",
        "DeadLetterGroup",
        "Deploy",
        "DoctorReport",
        "EmbeddedError",
        "EncryptedValue",
        "Every",
        "Except",
        "ExplainedGate",
        "Explanation",
        "Fail",
        "FieldMap",
        "Finding",
        "Firing",
        "Flow",
        "FlowBuilder",
        "FlowEdge",
        "FlowFailed",
        "FlowNode",
        "FlowNotFound",
        "ForeignDocument",
        "ForeignDocuments",
        "GateUse",
        "HandlerError",
        "HandlerStack",
        "HandlerStatus",
        "Health",
        "IndexesBuilding",
        "InvalidCron",
        "InvalidFlow",
        "InvalidJob",
        "InvalidKey",
        "InvalidOperation",
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
        "MalformedDocument",
        "MissingResult",
        "NameCounts",
        "NameStatistics",
        "NewApiKey",
        "NextFiring",
        "NodeHandle",
        "NotRepeatable",
        "Notice",
        "Operation",
        "OperationNotFound",
        "OperationPreview",
        "OperationProgress",
        "OverviewReport",
        "Pause",
        "Paused",
        "Predecessor",
        "Problem",
        "ProblemTarget",
        "Progress",
        "QueueFull",
        "RRule",
        "Rate",
        "RecentFiring",
        "Redrive",
        "RedriveNotFound",
        "Reference",
        "Results",
        "Retry",
        "RetryAfter",
        "Rule",
        "Schedule",
        "ScheduleNotFound",
        "SchedulePage",
        "ScheduleStateError",
        "Scheduler",
        "Secret",
        "SecretNotFound",
        "Sequence",
        "Signal",
        "Snooze",
        "Snoozing",
        "Statistics",
        "Step",
        "StepError",
        "Suspension",
        "Transaction",
        "Unavailable",
        "UnsupportedServer",
        "WaitTimeout",
        "WaitingFor",
        "WorkerNotFound",
        "WorkerStateError",
        "asgi",
    ]
    assert all(hasattr(mainspring, name) for name in mainspring.__all__)
    assert mainspring.sync.__all__ == [
        "Flow",
        "FlowBuilder",
        "Job",
        "JobContext",
        "Operation",
        "Redrive",
        "Schedule",
        "Scheduler",
    ]


def test_the_scheduler_has_these_names_and_no_others() -> None:
    assert _public(mainspring.Scheduler(NOWHERE)) == sorted([*SCHEDULER.split(), *NAMESPACES])
    assert _public(mainspring.sync.Scheduler(NOWHERE)) == sorted(
        [*SCHEDULER.split(), *NAMESPACES, "inner", "loop_factory"]
    )


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_namespace_has_these_names_and_no_others_in_both_faces(namespace: str) -> None:
    for face in (mainspring.Scheduler(NOWHERE), mainspring.sync.Scheduler(NOWHERE)):
        assert _public(getattr(face, namespace)) == NAMESPACES[namespace].split()


def test_the_types_of_the_blocking_face_are_those_of_the_async_one() -> None:
    """The stub names every argument of every verb, so that it is the pin of the signatures, too."""
    assert sync_stub.PLACE.read_text() == sync_stub.make(), "run: PYTHONPATH=tests python -m harness.sync_stub"


def test_every_verb_says_what_it_is_for_in_both_faces() -> None:
    for face in (mainspring.Scheduler(NOWHERE), mainspring.sync.Scheduler(NOWHERE)):
        for owner in (face, *(getattr(face, name) for name in NAMESPACES)):
            silent = [name for name in _public(type(owner)) if not inspect.getdoc(getattr(type(owner), name))]
            assert silent in ([], ["loop_factory"])


def test_a_schedule_has_these_verbs_in_both_faces() -> None:
    assert sorted(_methods(mainspring.Schedule)) == sorted(_methods(mainspring.sync.Schedule)) == SCHEDULE.split()


def test_a_schedule_has_what_was_promised_in_both_faces() -> None:
    promised = (
        "id name data rule state next_at due_at last_at last_job_id runs failures paused queue priority created_at "
        "updated_at start_at end_at jitter policy pause_after tags declared_by rev retry_policy guarantee timeout "
        "start_within kept error label"
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


def test_an_operation_has_what_was_promised_in_both_faces() -> None:
    promised = (
        "id verb state reason count capped cutoff created_at starts_at filter ids named priority queue created_by "
        "scope started_at finished_at updated_at progress error sample"
    )
    for kind in (mainspring.Operation, mainspring.sync.Operation):
        assert promised.split() == [name for name in kind.__dataclass_fields__ if not name.startswith("_")]
        assert _methods(kind) == {"refresh", "wait", "cancel"}
        assert _properties(kind) == {"finished"}


def test_a_group_of_dead_letters_has_what_was_promised() -> None:
    promised = "fingerprint name error_type message count first_seen last_seen sample_job_id"
    promised += " capped queues trend_start trend"
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
    given = ("self", "uri", "client", "handler", "retry", "retention", "keys", "audit_keys", "clock", "options")
    assert list(parameters) == [*given]
    assert set(Settings.__dataclass_fields__) == {
        "aging",
        "app",
        "field_map",
        "release",
        "start_within",
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
        "max_steps_size",
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
        (errors.BadArguments, (errors.InvalidJob,)),
        (errors.HandlerError, (errors.ConfigurationError,)),
        (errors.InvalidKey, (errors.ConfigurationError,)),
        (errors.AuditKeyMissing, (errors.ConfigurationError,)),
        (errors.KeyNotFound, (errors.MainspringError, LookupError)),
        (errors.InvalidSchedule, (errors.ConfigurationError,)),
        (errors.InvalidCron, (errors.InvalidSchedule,)),
        (errors.ScheduleNotFound, (errors.MainspringError, LookupError)),
        (errors.ScheduleStateError, (errors.MainspringError,)),
        (errors.CalendarNotFound, (errors.MainspringError, LookupError)),
        (errors.JobNotFound, (errors.MainspringError, LookupError)),
        (errors.JobStateError, (errors.MainspringError,)),
        (errors.RedriveNotFound, (errors.MainspringError, LookupError)),
        (errors.InvalidOperation, (errors.ConfigurationError,)),
        (errors.OperationNotFound, (errors.MainspringError, LookupError)),
        (errors.QueueFull, (errors.MainspringError,)),
        (errors.BulkError, (errors.MainspringError,)),
        (errors.ArchiveError, (errors.MainspringError,)),
        (errors.ClaimLost, (errors.MainspringError,)),
        (errors.StepError, (errors.MainspringError,)),
        (errors.NotRepeatable, (errors.StepError,)),
        (errors.ChildrenFailed, (errors.MainspringError,)),
        (errors.Suspension, (BaseException,)),
        (errors.InvalidFlow, (errors.InvalidJob,)),
        (errors.FlowNotFound, (errors.MainspringError, LookupError)),
        (errors.FlowFailed, (errors.MainspringError,)),
        (errors.MissingResult, (errors.MainspringError,)),
        (errors.WaitTimeout, (errors.MainspringError, TimeoutError)),
        (errors.Unavailable, (errors.MainspringError, ConnectionError)),
        (errors.IndexesBuilding, (errors.Unavailable,)),
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
