"""Mainspring: a distributed job scheduler for Python on MongoDB."""

from mainspring.cron import Cron
from mainspring.engine.context import JobContext
from mainspring.errors import (
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
    RetryAfter,
    ScheduleNotFound,
    ScheduleStateError,
    Signal,
    Snooze,
    Unavailable,
    UnsupportedServer,
    WaitTimeout,
)
from mainspring.model.breaker import Breaker, BreakerStatus
from mainspring.model.calendar import Calendar
from mainspring.model.controls import GateUse, LimitOverride, LimitStatus, Paused
from mainspring.model.explanation import ExplainedGate, Explanation
from mainspring.model.job import Attempt, Held, Job, JobError, Progress
from mainspring.model.ledger import Entry as LedgerEntry
from mainspring.model.ledger import Notice
from mainspring.model.limits import Limit, Rate, Sequence
from mainspring.model.retry import Retry
from mainspring.model.rules import AnyOf, At, Every, Except, RRule, Rule
from mainspring.model.schedule import Firing, Pause
from mainspring.scheduler import Scheduler
from mainspring.schedules import Schedule
from mainspring.store.ledger import Backfill

__all__ = [
    "AnyOf",
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
    "Retry",
    "RetryAfter",
    "Rule",
    "Schedule",
    "ScheduleNotFound",
    "ScheduleStateError",
    "Scheduler",
    "Sequence",
    "Signal",
    "Snooze",
    "Unavailable",
    "UnsupportedServer",
    "WaitTimeout",
]
