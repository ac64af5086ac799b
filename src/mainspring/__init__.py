"""Mainspring: a distributed job scheduler for Python on MongoDB."""

from mainspring.engine.context import JobContext
from mainspring.errors import (
    BulkError,
    Cancel,
    ClaimLost,
    ConfigurationError,
    EmbeddedError,
    Fail,
    HandlerError,
    InvalidJob,
    JobNotFound,
    JobStateError,
    MainspringError,
    RetryAfter,
    Signal,
    Snooze,
    Unavailable,
    UnsupportedServer,
    WaitTimeout,
)
from mainspring.model.job import Attempt, Held, Job, JobError, Progress
from mainspring.model.retry import Retry
from mainspring.scheduler import Scheduler

__all__ = [
    "Attempt",
    "BulkError",
    "Cancel",
    "ClaimLost",
    "ConfigurationError",
    "EmbeddedError",
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
    "Retry",
    "RetryAfter",
    "Scheduler",
    "Signal",
    "Snooze",
    "Unavailable",
    "UnsupportedServer",
    "WaitTimeout",
]
