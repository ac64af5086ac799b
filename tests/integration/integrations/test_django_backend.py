"""Tasks of Django as jobs: enqueued, run by a worker, and read as results."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest

from harness.django_app import BACKEND, set_up

set_up()

from django.core.checks import Error  # noqa: E402
from django.core.management import CommandError, call_command  # noqa: E402
from django.db import close_old_connections, transaction  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from harness.django_app import tasks  # noqa: E402
from harness.inside import inside  # noqa: E402
from mainspring import ConfigurationError  # noqa: E402
from mainspring.integrations.django import interface, runs  # noqa: E402
from mainspring.integrations.django.backend import MainspringBackend  # noqa: E402
from mainspring.integrations.django.interface import (  # noqa: E402
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from mainspring.integrations.django.results import job_priority, result_of  # noqa: E402
from mainspring.integrations.django.schedulers import scheduler_of  # noqa: E402
from mainspring.model.jobs.job import Attempt, Job, JobError  # noqa: E402
from mainspring.sync import Scheduler  # noqa: E402

READY, SUCCESSFUL, FAILED = TaskResultStatus.READY, TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED
later = datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.fixture
def backend(uri: str) -> Iterator[Any]:
    options = {"uri": uri, "retry": 1, "poll_interval": 0.2}
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}):
        backend = task_backends["default"]
        yield backend
        backend.scheduler.stop(graceful=False)


@pytest.fixture
def worker(backend: Any) -> Iterator[Scheduler]:
    scheduler = backend.worker()
    scheduler.start()
    yield scheduler


def ended(worker: Scheduler, result: Any) -> Any:
    worker.wait(result.id, timeout=60)
    result.refresh()
    return result


def test_it_supports_all_that_a_backend_can(backend: Any) -> None:
    assert backend.supports_defer and backend.supports_async_task
    assert backend.supports_get_result and backend.supports_priority
    assert list(backend.check()) == []


def test_an_enqueued_task_is_a_job_under_its_module_path(backend: Any) -> None:
    result = tasks.add.enqueue(1, b=2)
    job = backend.scheduler.get_job(result.id)
    assert (job.name, job.queue, job.priority) == ("harness.django_app.tasks.add", "default", 1)
    assert (result.status, result.args, result.kwargs, result.attempts) == (READY, [1], {"b": 2}, 0)
    assert tasks.add.get_result(result.id) == result and result.enqueued_at == job.created_at


def test_a_result_has_the_task_as_it_was_enqueued(backend: Any) -> None:
    task = tasks.add.using(priority=7, queue_name="mail", run_after=later)
    result = task.enqueue(1)
    job = backend.scheduler.get_job(result.id)
    assert (job.queue, job.priority, job.run_at) == ("mail", 5, later.replace(microsecond=123000))
    assert result.task == task and backend.get_result(result.id).task == task


def test_a_time_without_a_zone_is_one_in_the_current_zone_of_the_project(backend: Any) -> None:
    with override_settings(USE_TZ=False), timezone.override("Asia/Tokyo"):
        result = tasks.add.using(run_after=datetime(2030, 1, 1, 12)).enqueue(1)
    assert backend.scheduler.get_job(result.id).run_at == datetime(2030, 1, 1, 3, tzinfo=UTC)


def test_a_result_is_read_in_a_process_that_has_not_imported_the_task(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tasks.add.enqueue(1)
    monkeypatch.setattr(MainspringBackend, "declared", {})
    assert backend.get_result(result.id) == result


@pytest.mark.parametrize(("priority", "made"), [(100, 1), (75, 2), (25, 4), (12, 5), (0, 5), (-25, 6), (-100, 9)])
def test_priorities_are_mapped_in_their_order(priority: int, made: int) -> None:
    assert job_priority(priority) == made


def test_a_worker_runs_plain_and_async_tasks(worker: Scheduler) -> None:
    results = [tasks.add.enqueue(1, b=2), tasks.add_async.enqueue(1)]
    assert [ended(worker, result).return_value for result in results] == [3, 2]
    assert all(result.status == SUCCESSFUL and result.is_finished and result.attempts == 1 for result in results)
    assert all(result.enqueued_at <= result.started_at <= result.finished_at for result in results)


def test_a_task_that_takes_its_context_gets_it(worker: Scheduler) -> None:
    result = ended(worker, tasks.told.enqueue("hello"))
    assert result.return_value == {"word": "hello", "id": result.id, "attempt": 1}


@pytest.mark.parametrize(
    ("task", "args", "kind", "text"),
    [
        (tasks.fail, ("gone",), LookupError, "LookupError: gone"),
        (tasks.give_up, (), interface.TaskError, "no use"),
        (tasks.unsuitable, (), TypeError, "Unsupported type"),
    ],
)
def test_a_failed_task_has_its_error(worker: Scheduler, task: Any, args: Any, kind: type, text: str) -> None:
    result = ended(worker, task.enqueue(*args))
    assert result.status == FAILED
    (error,) = result.errors
    assert text in error.traceback
    assert kind is interface.TaskError or error.exception_class is kind
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_task_is_tried_again_where_the_options_say_so(uri: str) -> None:
    options = {"uri": uri, "retry": 2, "poll_interval": 0.2}
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}):
        scheduler = task_backends["default"].worker()
        result = tasks.second_time.enqueue()
        scheduler.start()
        while scheduler.get_job(result.id).tries == 0 or scheduler.get_job(result.id).state == "running":
            pass
        scheduler.run_now(result.id)
        assert ended(scheduler, result).return_value == 2
        assert [error.exception_class for error in result.errors] == [ValueError] and result.attempts == 2
        scheduler.stop(graceful=False)


def test_a_cancelled_task_has_failed_with_an_error_that_says_so(backend: Any) -> None:
    result = tasks.add.using(run_after=later).enqueue(1)
    backend.scheduler.cancel(result.id)
    result.refresh()
    assert (result.status, result.errors[0].exception_class.__name__) == (FAILED, "Cancel")
    expired = tasks.add.enqueue(1)
    backend.scheduler.update(expired.id, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert expired.status == READY


def job_of(**fields: Any) -> Job:
    known: dict[str, Any] = {"state": "completed", "queue": "default", "priority": 5, "run_at": later}
    return Job(**{"id": "1" * 24, "name": "add", "data": {"args": [1]}, "created_at": later, **known, **fields})


def test_a_result_has_the_attempts_of_its_job_and_an_error_wherever_it_has_failed() -> None:
    last = Attempt(3, 3, "completed", "host:1", later, later)
    done = result_of(tasks.add, job_of(tries=3, attempts=(last,)), "default")
    assert (done.attempts, done.worker_ids) == (3, ["", "", "host:1"]), "attempts that are not kept count, too"
    assert (done.started_at, done.last_attempted_at) == (later, later)
    running = result_of(tasks.add, job_of(state="running", tries=1, started_at=later, worker="host:2"), "default")
    assert (running.last_attempted_at, running.worker_ids) == (later, ["host:2"])
    expired = result_of(tasks.add, job_of(state="expired"), "default")
    assert (expired.status, [one.exception_class for one in expired.errors]) == (FAILED, [TimeoutError])
    failed = result_of(tasks.add, job_of(state="failed", error=JobError("LookupError", "gone")), "default")
    assert [one.exception_class for one in failed.errors] == [LookupError], "the attempt itself is not kept"


def test_a_task_begins_and_ends_without_connections_that_have_become_old(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closing() -> None:
        tasks.ran.append("closed")
        close_old_connections()

    monkeypatch.setattr(tasks, "ran", [])
    monkeypatch.setattr(runs, "close_old_connections", closing)
    scheduler = backend.discover()
    scheduler.start()
    ended(scheduler, tasks.note.enqueue("ran"))
    assert tasks.ran == ["closed", "ran", "closed"]


def test_a_cancelled_task_has_finished_for_django(worker: Scheduler) -> None:
    seen: list[str] = []

    def receive(sender: type, task_result: Any, **others: Any) -> None:
        seen.append(str(task_result.status))

    task_finished.connect(receive)
    try:
        worker.cancel(tasks.add.using(run_after=later).enqueue(1).id)
        worker.stop()
    finally:
        task_finished.disconnect(receive)
    assert seen == ["FAILED"]


def test_other_options_make_another_scheduler_and_stop_the_one_before(uri: str) -> None:
    first = scheduler_of("other", {"uri": uri})
    first.schedule("x")
    assert scheduler_of("other", {"uri": uri}) is first and inside(first.inner).core.link.connected
    second = scheduler_of("other", {"uri": uri, "retry": 2})
    assert second is not first and not inside(first.inner).core.link.connected


def test_the_signals_of_django_are_sent(worker: Scheduler) -> None:
    seen: list[tuple[str, str]] = []
    receivers = []
    for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):

        def receive(sender: type, task_result: Any, name: str = name, **others: Any) -> None:
            assert sender.__name__ == "MainspringBackend"
            seen.append((name, str(task_result.status)))

        signal.connect(receive)
        receivers.append((signal, receive))
    try:
        ended(worker, tasks.add.enqueue(1))
        ended(worker, tasks.fail.enqueue("x"))
        worker.stop()
    finally:
        for signal, receive in receivers:
            signal.disconnect(receive)
    names = [name for name, _ in seen]
    assert names.count("enqueued") == names.count("started") == names.count("finished") == 2
    assert {status for name, status in seen if name == "finished"} == {"SUCCESSFUL", "FAILED"}
    assert {status for name, status in seen if name == "started"} == {"RUNNING"}


def test_only_declared_tasks_run(worker: Scheduler, backend: Any) -> None:
    job = worker.schedule("os.getcwd", {"args": [], "kwargs": {}})
    with pytest.raises(TaskResultDoesNotExist, match=r"os\.getcwd"):
        backend.get_result(job.id)
    ended(worker, tasks.note.enqueue("after"))
    assert worker.get_job(job.id).state == "pending" and tasks.ran == ["after"]


def test_a_result_that_is_not_there_is_not_found(backend: Any) -> None:
    for missing in ("123", "f" * 24):
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result(missing)


async def test_tasks_are_enqueued_and_read_in_async_code(backend: Any) -> None:
    result = await tasks.add.aenqueue(1)
    assert await tasks.add.aget_result(result.id) == result
    await asyncio.to_thread(backend.scheduler.stop)


def test_a_task_may_wait_for_the_commit(backend: Any) -> None:
    made: list[Any] = []
    with pytest.raises(LookupError), transaction.atomic():
        transaction.on_commit(lambda: made.append(tasks.add.enqueue(1)))
        raise LookupError
    with transaction.atomic():
        transaction.on_commit(lambda: made.append(tasks.add.enqueue(2)))
        assert made == []
    assert [result.args for result in made] == [[2]]


def test_the_command_knows_the_tasks_of_all_applications(backend: Any) -> None:
    out = StringIO()
    call_command("mainspring_worker", "--check", "--queue-name", "mail", "--concurrency", "3", stdout=out)
    assert "harness.django_app.tasks.add," in out.getvalue()
    assert (backend.scheduler.settings.queues, backend.scheduler.settings.concurrency) == (("mail",), 3)


def test_the_command_of_mainspring_finds_the_scheduler_of_the_project(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mainspring.integrations.django.worker", raising=False)
    found = importlib.import_module("mainspring.integrations.django.worker")
    assert found.scheduler is backend.scheduler
    assert "harness.django_app.tasks.add" in (found.scheduler.workers.handler_names or ())


def test_the_command_names_a_backend_that_is_none_of_mainspring() -> None:
    path = interface.BaseTaskBackend.__module__.replace("base", "dummy") + ".DummyBackend"
    with (
        override_settings(TASKS={"default": {"BACKEND": path}}),
        pytest.raises(CommandError, match="MainspringBackend"),
    ):
        call_command("mainspring_worker", "--check")


@pytest.mark.parametrize("options", [{"concurency": 3}, {"scheduler": "harness.django_app.tasks.ran"}])
def test_wrong_options_are_found_by_the_checks_of_django(options: dict[str, Any]) -> None:
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": options}}):
        (error,) = task_backends["default"].check()
    assert isinstance(error, Error) and error.id == "mainspring.E001"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mainspring.integrations.django.interface")
    for name in ("django.tasks", "django_tasks"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=r"mainspring\[django\]"):
        __import__("mainspring.integrations.django.interface")
