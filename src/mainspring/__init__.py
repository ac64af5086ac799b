"""Mainspring: a distributed job scheduler for Python on MongoDB."""

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
    InvalidSchedule,
    JobNotFound,
    JobStateError,
    MainspringError,
    QueueFull,
    RedriveNotFound,
    RetryAfter,
    ScheduleNotFound,
    ScheduleStateError,
    Signal,
    Snooze,
    StepError,
    Unavailable,
    UnsupportedServer,
    WaitTimeout,
)
from mainspring.model.breaker import Breaker, BreakerStatus
from mainspring.model.calendar import Calendar
from mainspring.model.controls import GateUse, LimitOverride, LimitStatus, Paused
from mainspring.model.dead_letters import DeadLetterGroup
from mainspring.model.explanation import ExplainedGate, Explanation
from mainspring.model.job import Attempt, Held, Job, JobError, Progress, Step
from mainspring.model.ledger import Entry as LedgerEntry
from mainspring.model.ledger import Notice
from mainspring.model.limits import Limit, Rate, Sequence
from mainspring.model.retention import Keep
from mainspring.model.retry import Retry
from mainspring.model.rules import AnyOf, At, Every, Except, RRule, Rule
from mainspring.model.schedule import Firing, Pause
from mainspring.model.sealing import Sealed
from mainspring.scheduler import Scheduler
from mainspring.schedules import Schedule
from mainspring.store.ledger import Backfill

__all__ = [
    "AnyOf",
    "ArchiveError",
    "At",
    "Attempt",
    "Backfill",
    "Breaker",
    "BreakerStatus",
    "BulkError",
    "Calendar",
    "CalendarNotFound",
    "Cancel",
    "ClaimLost",
    "ConfigurationError",
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
    "Held",
    "InvalidCron",
    "InvalidJob",
    "InvalidSchedule",
    "Job",
    "JobContext",
    "JobError",
    "JobNotFound",
    "JobStateError",
    "Keep",
    "LedgerEntry",
    "Limit",
    "LimitOverride",
    "LimitStatus",
    "MainspringError",
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
    "Sequence",
    "Signal",
    "Snooze",
    "Step",
    "StepError",
    "Unavailable",
    "UnsupportedServer",
    "WaitTimeout",
]
