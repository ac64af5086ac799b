"""One attempt at a task in a worker: its context, the signals of Django, and its database connections.

`Runs` makes the handlers of tasks. A plain task runs in a thread, an async one on the event loop of the worker. Only
tasks that are declared in code have a handler: nothing in the database can name a function. `Ends` tells Django of
tasks that have ended, after their outcome is stored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.integrations.django.interface import TaskContext, normalize_json, task_finished, task_started
from mainspring.integrations.django.results import result_of, task_of
from mainspring.model.fields import Fields
from mainspring.model.jobs.event_names import EventName
from mainspring.model.jobs.job import Job
from mainspring.sync import Scheduler

_ENDS: tuple[EventName, ...] = ("job:success", "job:fail", "job:cancel", "job:expire")


class Runs:
    """Makes the handlers of tasks for one backend, whose class is the sender of signals."""

    def __init__(self, scheduler: Scheduler, alias: str, sender: type) -> None:
        self._scheduler = scheduler
        self._alias = alias
        self._sender = sender

    def handler_for(self, task: Any) -> Callable[..., Any]:
        """The handler of a task. Its parameters are the data of the task's jobs (`results.task_data`)."""

        def run(
            ctx: BlockingJobContext,
            args: list[Any],
            kwargs: Fields,
            priority: int = 0,
            run_after: str | None = None,
        ) -> Any:
            close_old_connections()  # the thread of a worker lives longer than a request
            try:
                positional = self._begin(task, self._scheduler.get_job(ctx.id), args)
                return normalize_json(task.func(*positional, **kwargs))
            finally:
                close_old_connections()

        async def run_async(
            ctx: JobContext,
            args: list[Any],
            kwargs: Fields,
            priority: int = 0,
            run_after: str | None = None,
        ) -> Any:
            job = await self._scheduler.inner.get_job(ctx.id)
            positional = await sync_to_async(self._begin)(task, job, args)
            return normalize_json(await task.func(*positional, **kwargs))

        return run_async if inspect.iscoroutinefunction(task.func) else run

    def _begin(self, task: Any, job: Job, args: list[Any]) -> list[Any]:
        """Tell Django that the task has started; returns its arguments by their place."""
        result = result_of(task_of(task, job.queue, job.data, self._alias), job, self._alias)
        task_started.send(sender=self._sender, task_result=result)
        return [TaskContext(task_result=result), *args] if task.takes_context else args


class Results(Protocol):
    """Makes the results of tasks: the backend."""

    def result_of(self, job: Job) -> Any: ...


class Ends:
    """Sends the signal `task_finished` in the worker that has run a task, once its outcome is stored."""

    def __init__(self, backend: Results) -> None:
        self._backend = backend

    def follow(self, scheduler: Scheduler) -> None:
        for event in _ENDS:
            scheduler.inner.on(event, self._told)

    async def _told(self, job: Job) -> None:
        await sync_to_async(self._send)(job)

    def _send(self, job: Job) -> None:
        close_old_connections()
        try:
            result = self._backend.result_of(job)
            if result is not None:
                task_finished.send(sender=type(self._backend), task_result=result)
        finally:
            close_old_connections()
