"""A job as the result of a task: its state, its attempts and its errors in the words of Django. Pure."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring import errors
from mainspring.integrations.django.interface import Task, TaskError, TaskResult, TaskResultStatus
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import CANCELLED, COMPLETED, EXPIRED, FAILED, RUNNING, Attempt, Job, JobError

_STATUSES = {
    RUNNING: TaskResultStatus.RUNNING,
    COMPLETED: TaskResultStatus.SUCCESSFUL,
    FAILED: TaskResultStatus.FAILED,
    CANCELLED: TaskResultStatus.FAILED,
    EXPIRED: TaskResultStatus.FAILED,
}
"""The status of each state; a job that is pending or blocked is READY."""
_ENDS = {
    CANCELLED: ("mainspring.errors.Cancel", "The task was cancelled."),
    EXPIRED: ("builtins.TimeoutError", "The task expired: it was not started in time."),
}
"""The error of a task that ended without one of its own."""
_OTHERS = {"Timeout": "builtins.TimeoutError"}


def job_priority(priority: int) -> int:
    """The priority of a job, from 1 (first) to 10, for that of a task, from -100 to 100 (first): 0 is 5."""
    return min(10, max(1, 5 - round(priority / 25)))


def task_data(task: Any, args: Any, kwargs: Mapping[str, Any]) -> Fields:
    """The data of a task's job: its arguments, and the values of the task that a job keeps in another form."""
    after = task.run_after
    return {
        "args": list(args),
        "kwargs": dict(kwargs),
        **({"priority": task.priority} if task.priority else {}),
        **({"run_after": after.isoformat()} if after is not None else {}),
    }


def task_of(declared: Any, queue: str, data: Mapping[str, Any], alias: str) -> Any:
    """The task that a job was made of: the declared one, with the priority, queue and time of its enqueuing."""
    after = data.get("run_after")
    changes = {
        "priority": data.get("priority", 0),
        "queue_name": queue,
        "run_after": None if after is None else datetime.fromisoformat(after),
        "backend": alias,
    }
    same = all(getattr(declared, name) == value for name, value in changes.items())
    return declared if same else Task(func=declared.func, takes_context=declared.takes_context, **changes)


def result_of(task: Any, job: Job, alias: str) -> Any:
    """The result of a task, as its job is now."""
    status = _STATUSES.get(job.state, TaskResultStatus.READY)
    result = TaskResult(
        task=task,
        id=job.id,
        status=status,
        enqueued_at=job.created_at,
        started_at=_first_start(job),
        finished_at=job.finished_at,
        last_attempted_at=job.started_at if job.state == RUNNING else _last_start(job),
        args=job.data.get("args", []),
        kwargs=job.data.get("kwargs", {}),
        backend=alias,
        errors=_errors(job),
        worker_ids=_workers(job),
    )
    if status == TaskResultStatus.SUCCESSFUL:
        object.__setattr__(result, "_return_value", job.result)
    return result


def _first_start(job: Job) -> datetime | None:
    starts = [attempt.started_at for attempt in job.attempts if attempt.started_at is not None]
    return min(starts, default=job.started_at)


def _last_start(job: Job) -> datetime | None:
    starts = [attempt.started_at for attempt in job.attempts if attempt.started_at is not None]
    return max(starts, default=None)


def _workers(job: Job) -> list[str]:
    """The worker of each attempt. Attempts that are not kept any more count, too: Django counts attempts by these."""
    known = [attempt.worker or "" for attempt in job.attempts]
    if job.state == RUNNING:
        known.append(job.worker or "")
    return [""] * max(0, job.tries - len(known)) + known


def _errors(job: Job) -> list[Any]:
    errors = [task_error(attempt.error) for attempt in job.attempts if _failed(attempt)]
    if job.state in _ENDS:
        path, text = _ENDS[job.state]
        errors.append(TaskError(exception_class_path=path, traceback=f"{path.rpartition('.')[2]}: {text}\n"))
    elif job.state == FAILED and not errors:
        errors.append(task_error(job.error))
    return errors


def _failed(attempt: Attempt) -> bool:
    return attempt.error is not None and attempt.outcome != COMPLETED


def task_error(error: JobError | None) -> Any:
    """An error of an attempt. The path of its class is that of the exception, which Django imports when asked for."""
    if error is None:
        return TaskError(exception_class_path="builtins.Exception", traceback="Exception: no error is kept.\n")
    return TaskError(exception_class_path=_class_path(error.type), traceback=error.stack or f"{error}\n")


def _class_path(name: str) -> str:
    """The path of an exception's class, from the name that is kept; an ending that is no exception of its own, such as
    a timeout, has that of the nearest one."""
    if "." in name:
        return name
    if isinstance(getattr(builtins, name, None), type):
        return f"builtins.{name}"
    return f"mainspring.errors.{name}" if hasattr(errors, name) else _OTHERS.get(name, "builtins.Exception")
