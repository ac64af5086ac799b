"""Mainspring: a distributed job scheduler for Python on MongoDB.

A name is imported at its first use: the commands that need no database would otherwise wait for all of the library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainspring.errors import (
    AlertRuleNotFound,
    ArchiveError,
    AuditKeyMissing,
    BadArguments,
    BulkError,
    CalendarNotFound,
    Cancel,
    ChildrenFailed,
    ClaimLost,
    ConfigurationError,
    Continue,
    EmbeddedError,
    Fail,
    FlowFailed,
    FlowNotFound,
    HandlerError,
    IndexesBuilding,
    InvalidCron,
    InvalidFlow,
    InvalidJob,
    InvalidKey,
    InvalidOperation,
    InvalidSchedule,
    JobNotFound,
    JobStateError,
    KeyNotFound,
    MainspringError,
    MalformedDocument,
    MissingResult,
    NotRepeatable,
    OperationNotFound,
    QueueFull,
    RedriveNotFound,
    RetryAfter,
    ScheduleNotFound,
    ScheduleStateError,
    SecretNotFound,
    Signal,
    Snooze,
    StepError,
    Suspension,
    Unavailable,
    UnsupportedServer,
    WaitTimeout,
    WorkerNotFound,
    WorkerStateError,
)

if TYPE_CHECKING:
    from mainspring.api.mounted import MountedService
    from mainspring.client.alerts.trial import AlertTest
    from mainspring.client.flows.builder import FlowBuilder, NodeHandle
    from mainspring.client.namespaces.api_keys import NewKey as NewApiKey
    from mainspring.client.namespaces.dead_letters import Redrive
    from mainspring.client.namespaces.flows import Flow
    from mainspring.client.namespaces.operations import Operation
    from mainspring.client.namespaces.schedules import Schedule
    from mainspring.client.scheduler import Scheduler
    from mainspring.config.field_map import FieldMap
    from mainspring.engine.flows.handler_waits import Results
    from mainspring.engine.run.context import JobContext
    from mainspring.model.access.api_keys import Key as ApiKey
    from mainspring.model.access.audit import Entry as AuditEntry
    from mainspring.model.access.audit import Link as AuditLink
    from mainspring.model.access.audit import Row as AuditRow
    from mainspring.model.access.audit import Verdict as AuditVerdict
    from mainspring.model.alerts.episode import AlertState
    from mainspring.model.alerts.episode import Subject as AlertSubject
    from mainspring.model.alerts.rule import AlertRule
    from mainspring.model.alerts.rule import Destination as AlertDestination
    from mainspring.model.alerts.rule import Silence as AlertSilence
    from mainspring.model.dead_letters.dead_letters import DeadLetterGroup
    from mainspring.model.doctor.findings import DoctorReport, Finding
    from mainspring.model.explain.explanation import ExplainedGate, Explanation
    from mainspring.model.flows.before import Before, Predecessor
    from mainspring.model.flows.flow import FlowNode
    from mainspring.model.flows.graph import Edge as FlowEdge
    from mainspring.model.flows.references import Reference
    from mainspring.model.jobs.foreign import ForeignDocument, ForeignDocuments
    from mainspring.model.jobs.handler_status import HandlerStatus
    from mainspring.model.jobs.job import Attempt, HandlerStack, Job, JobError, Progress, Snoozing, Step, WaitingFor
    from mainspring.model.jobs.retention import Keep
    from mainspring.model.jobs.retry import Retry
    from mainspring.model.limits.breaker import Breaker, BreakerStatus
    from mainspring.model.limits.controls import GateUse, LimitOverride, LimitStatus, Paused
    from mainspring.model.limits.limits import Limit, Rate, Sequence
    from mainspring.model.operations.operations import OperationPreview, OperationProgress
    from mainspring.model.privacy.encrypted_values import EncryptedValue
    from mainspring.model.privacy.secrets import Secret
    from mainspring.model.schedules.coming import Coming, ComingBucket
    from mainspring.model.schedules.ledger import Entry as LedgerEntry
    from mainspring.model.schedules.ledger import Notice, RecentFiring
    from mainspring.model.schedules.schedule import Firing, Pause
    from mainspring.model.schedules.search import SchedulePage
    from mainspring.model.views.changes import Change
    from mainspring.model.views.health import Health
    from mainspring.model.views.name_statistics import NameCounts, NameStatistics
    from mainspring.model.views.problems import Cure, NextFiring, OverviewReport, Problem, ProblemTarget
    from mainspring.model.views.statistics import Counts, Deploy, Statistics
    from mainspring.rules import AnyOf, At, Every, Except, RRule, Rule
    from mainspring.rules.calendars.calendar import Calendar
    from mainspring.rules.cron import Cron
    from mainspring.rules.zones.changes import ClockChange
    from mainspring.store.jobs.transactions import Transaction
    from mainspring.store.schedules.ledger import Backfill

_PLACES = {
    "AlertDestination": "mainspring.model.alerts.rule:Destination",
    "AlertRule": "mainspring.model.alerts.rule",
    "AlertSilence": "mainspring.model.alerts.rule:Silence",
    "AlertState": "mainspring.model.alerts.episode",
    "AlertSubject": "mainspring.model.alerts.episode:Subject",
    "AlertTest": "mainspring.client.alerts.trial",
    "AnyOf": "mainspring.rules",
    "ApiKey": "mainspring.model.access.api_keys:Key",
    "At": "mainspring.rules",
    "Attempt": "mainspring.model.jobs.job",
    "AuditEntry": "mainspring.model.access.audit:Entry",
    "AuditLink": "mainspring.model.access.audit:Link",
    "AuditRow": "mainspring.model.access.audit:Row",
    "AuditVerdict": "mainspring.model.access.audit:Verdict",
    "Backfill": "mainspring.store.schedules.ledger",
    "Before": "mainspring.model.flows.before",
    "Breaker": "mainspring.model.limits.breaker",
    "BreakerStatus": "mainspring.model.limits.breaker",
    "Calendar": "mainspring.rules.calendars.calendar",
    "Change": "mainspring.model.views.changes",
    "ClockChange": "mainspring.rules.zones.changes",
    "Coming": "mainspring.model.schedules.coming",
    "ComingBucket": "mainspring.model.schedules.coming",
    "Counts": "mainspring.model.views.statistics",
    "Cron": "mainspring.rules.cron",
    "Cure": "mainspring.model.views.problems",
    "DeadLetterGroup": "mainspring.model.dead_letters.dead_letters",
    "Deploy": "mainspring.model.views.statistics",
    "DoctorReport": "mainspring.model.doctor.findings",
    "EncryptedValue": "mainspring.model.privacy.encrypted_values",
    "Every": "mainspring.rules",
    "Except": "mainspring.rules",
    "ExplainedGate": "mainspring.model.explain.explanation",
    "Explanation": "mainspring.model.explain.explanation",
    "FieldMap": "mainspring.config.field_map",
    "Finding": "mainspring.model.doctor.findings",
    "Firing": "mainspring.model.schedules.schedule",
    "Flow": "mainspring.client.namespaces.flows",
    "FlowBuilder": "mainspring.client.flows.builder",
    "FlowEdge": "mainspring.model.flows.graph:Edge",
    "FlowNode": "mainspring.model.flows.flow",
    "ForeignDocument": "mainspring.model.jobs.foreign",
    "ForeignDocuments": "mainspring.model.jobs.foreign",
    "GateUse": "mainspring.model.limits.controls",
    "HandlerStack": "mainspring.model.jobs.job",
    "HandlerStatus": "mainspring.model.jobs.handler_status",
    "Health": "mainspring.model.views.health",
    "Job": "mainspring.model.jobs.job",
    "JobContext": "mainspring.engine.run.context",
    "JobError": "mainspring.model.jobs.job",
    "Keep": "mainspring.model.jobs.retention",
    "LedgerEntry": "mainspring.model.schedules.ledger:Entry",
    "Limit": "mainspring.model.limits.limits",
    "LimitOverride": "mainspring.model.limits.controls",
    "LimitStatus": "mainspring.model.limits.controls",
    "NameCounts": "mainspring.model.views.name_statistics",
    "NameStatistics": "mainspring.model.views.name_statistics",
    "NewApiKey": "mainspring.client.namespaces.api_keys:NewKey",
    "NextFiring": "mainspring.model.views.problems",
    "NodeHandle": "mainspring.client.flows.builder",
    "Notice": "mainspring.model.schedules.ledger",
    "Operation": "mainspring.client.namespaces.operations",
    "OperationPreview": "mainspring.model.operations.operations",
    "OperationProgress": "mainspring.model.operations.operations",
    "OverviewReport": "mainspring.model.views.problems",
    "Pause": "mainspring.model.schedules.schedule",
    "Paused": "mainspring.model.limits.controls",
    "Predecessor": "mainspring.model.flows.before",
    "Problem": "mainspring.model.views.problems",
    "ProblemTarget": "mainspring.model.views.problems",
    "Progress": "mainspring.model.jobs.job",
    "RRule": "mainspring.rules",
    "Rate": "mainspring.model.limits.limits",
    "RecentFiring": "mainspring.model.schedules.ledger",
    "Redrive": "mainspring.client.namespaces.dead_letters",
    "Reference": "mainspring.model.flows.references",
    "Results": "mainspring.engine.flows.handler_waits",
    "Retry": "mainspring.model.jobs.retry",
    "Rule": "mainspring.rules",
    "Schedule": "mainspring.client.namespaces.schedules",
    "SchedulePage": "mainspring.model.schedules.search",
    "Scheduler": "mainspring.client.scheduler",
    "Secret": "mainspring.model.privacy.secrets",
    "Sequence": "mainspring.model.limits.limits",
    "Snoozing": "mainspring.model.jobs.job",
    "Statistics": "mainspring.model.views.statistics",
    "Step": "mainspring.model.jobs.job",
    "Transaction": "mainspring.store.jobs.transactions",
    "WaitingFor": "mainspring.model.jobs.job",
}
"""The module of each name that is imported at its first use, and its name there if that is another one."""


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, original = place.partition(":")
    found = getattr(import_module(module), original or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})


def asgi(scheduler: Scheduler) -> MountedService:
    """Return the HTTP API and the dashboard of a scheduler as an ASGI application, to mount in another one:
    `app.mount("/jobs", mainspring.asgi(scheduler))`. Its settings come from the environment, like those of `mainspring
    serve`. Every request needs an API key, or a session that was opened with one."""
    try:
        from mainspring.api.mounted import MountedService
        from mainspring.api.settings import service_settings
    except ImportError as error:
        raise ConfigurationError(f"The service needs its extra: pip install 'mainspring[api]' ({error}).") from None
    return MountedService(scheduler, service_settings())


__all__ = [
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
