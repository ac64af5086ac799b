"""Mainspring: a distributed job scheduler for Python on MongoDB."""

from mainspring.access import NewKey as NewApiKey
from mainspring.cron import Cron
from mainspring.dead_letters import Redrive
from mainspring.engine.context import JobContext
from mainspring.errors import (
    ArchiveError,
    BulkError,
    CalendarNotFound,
    Cancel,
    ClaimLost,
    ConfigurationError,
    EmbeddedError,
    Fail,
    HandlerError,
    InvalidCron,
    InvalidJob,
    InvalidKey,
    InvalidSchedule,
    JobNotFound,
    JobStateError,
    KeyNotFound,
    MainspringError,
    QueueFull,
    RedriveNotFound,
    RetryAfter,
    ScheduleNotFound,
    ScheduleStateError,
    SecretNotFound,
    Signal,
    Snooze,
    StepError,
    Unavailable,
    UnsupportedServer,
    WaitTimeout,
)
from mainspring.model.access import Key as ApiKey
from mainspring.model.audit import Entry as AuditEntry
from mainspring.model.audit import Row as AuditRow
from mainspring.model.audit import Verdict as AuditVerdict
from mainspring.model.breaker import Breaker, BreakerStatus
from mainspring.model.calendar import Calendar
from mainspring.model.changes import Change
from mainspring.model.controls import GateUse, LimitOverride, LimitStatus, Paused
from mainspring.model.dead_letters import DeadLetterGroup
from mainspring.model.explanation import ExplainedGate, Explanation
from mainspring.model.health import Health
from mainspring.model.job import Attempt, Held, Job, JobError, Progress, Step
from mainspring.model.ledger import Entry as LedgerEntry
from mainspring.model.ledger import Notice
from mainspring.model.limits import Limit, Rate, Sequence
from mainspring.model.retention import Keep
from mainspring.model.retry import Retry
from mainspring.model.rules import AnyOf, At, Every, Except, RRule, Rule
from mainspring.model.schedule import Firing, Pause
from mainspring.model.sealing import Sealed
from mainspring.model.secrets import Secret
from mainspring.model.statistics import Counts, Statistics
from mainspring.scheduler import Scheduler
from mainspring.schedules import Schedule
from mainspring.store.ledger import Backfill

__all__ = [
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
