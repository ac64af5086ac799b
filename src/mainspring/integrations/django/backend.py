"""The backend of `django.tasks` that stores tasks as jobs. `runs.py` runs them, `results.py` translates both ways.

The name of a task's job is the task's module path. A task is known to this process once the module that declares it is
imported: its declaration validates it, and so names it here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from django.core import checks
from django.utils import timezone

from mainspring.errors import ConfigurationError, JobNotFound
from mainspring.integrations.django.discovery import declared_tasks
from mainspring.integrations.django.interface import (
    BaseTaskBackend,
    TaskResultDoesNotExist,
    normalize_json,
    task_enqueued,
)
from mainspring.integrations.django.results import job_priority, result_of, task_data, task_of
from mainspring.integrations.django.runs import Ends, Runs
from mainspring.integrations.django.schedulers import scheduler_of
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.sync import Scheduler

_ID = re.compile(r"[0-9a-f]{24}")


class MainspringBackend(BaseTaskBackend):
    """Stores tasks as jobs in MongoDB; `manage.py mainspring_worker` runs them."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    declared: ClassVar[Fields] = {}
    """The tasks that this process has declared, of whatever backend, by their module paths."""

    def validate_task(self, task: Any) -> None:
        super().validate_task(task)
        self.declared.setdefault(task.module_path, task)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Store the job of a task. It is not part of a transaction of Django: use `transaction.on_commit`."""
        self.validate_task(task)
        data = task_data(task, normalize_json(list(args)), normalize_json(dict(kwargs)))
        job = self.scheduler.schedule(
            task.module_path,
            data,
            queue=task.queue_name,
            priority=job_priority(task.priority),
            run_at=_aware(task.run_after),
        )
        result = result_of(task, job, self.alias)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """The result of a task, as its job is now."""
        if not isinstance(result_id, str) or not _ID.fullmatch(result_id):
            raise TaskResultDoesNotExist(result_id)
        try:
            job = self.scheduler.get_job(result_id)
        except JobNotFound:
            raise TaskResultDoesNotExist(result_id) from None
        result = self.result_of(job)
        if result is None:
            raise TaskResultDoesNotExist(f"{result_id}: no module that is imported declares the task {job.name!r}")
        return result

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """Refuse options that no Scheduler has. Nothing is connected."""
        try:
            scheduler_of(self.alias, self.options)
        except (ConfigurationError, ImportError) as error:
            return [checks.Error(f"TASKS[{self.alias!r}]: {error}", id="mainspring.E001")]
        return []

    @property
    def scheduler(self) -> Scheduler:
        """The Scheduler of this backend, with the handlers of all tasks that are declared by now."""
        scheduler = scheduler_of(self.alias, self.options)
        known = scheduler.workers.handler_names or ()
        runs = Runs(scheduler, self.alias, type(self))
        for path, task in list(self.declared.items()):
            if path not in known:
                scheduler.job(path)(runs.handler_for(task))
        return scheduler

    def discover(self) -> Scheduler:
        """Import the modules `tasks` of all applications, and return the Scheduler with the handlers of their tasks."""
        for task in declared_tasks():
            self.declared.setdefault(task.module_path, task)
        return self.scheduler

    def worker(self) -> Scheduler:
        """The Scheduler of a worker: it has the handlers of all tasks, and tells Django when a task has ended."""
        scheduler = self.discover()
        Ends(self).follow(scheduler)
        return scheduler

    def _declared(self, path: str) -> Any:
        if path not in self.declared:
            self.discover()
        return self.declared.get(path)

    def result_of(self, job: Job) -> Any:
        """The result of the task that a job was made of; None if no module that is imported declares that task."""
        declared = self._declared(job.name)
        if declared is None:
            return None
        return result_of(task_of(declared, job.queue, job.data, self.alias), job, self.alias)


def _aware(run_after: datetime | None) -> datetime | None:
    """A time in the current zone of Django, where the project uses times without zones."""
    return timezone.make_aware(run_after) if run_after is not None and timezone.is_naive(run_after) else run_after
