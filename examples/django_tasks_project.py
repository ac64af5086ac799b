"""A Django project in one file, whose tasks Mainspring stores and runs.

    python examples/django_tasks_project.py     enqueues two tasks, with a worker in the same process

In a project of several files, the tasks are in the modules `tasks.py` of its applications, and `manage.py
mainspring_worker` runs them. It needs the extra `django`; with Django 6, tasks are imported from `django.tasks`.
"""

import os

import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["mainspring.integrations.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={
        "default": {
            "BACKEND": "mainspring.integrations.django.backend.MainspringBackend",
            "OPTIONS": {"uri": os.environ.get("MAINSPRING_URI"), "retry": 1},
        }
    },
    LOGGING={  # this program prints the failure itself
        "version": 1,
        "loggers": {name: {"level": "CRITICAL"} for name in ("django.tasks", "django_tasks")},
    },
    USE_TZ=True,
)
django.setup()

from django.db import transaction  # noqa: E402

try:
    from django.tasks import task, task_backends
except ModuleNotFoundError:  # before Django 6
    from django_tasks import task, task_backends


@task(priority=50, takes_context=True)
def welcome(context, name: str) -> str:  # type: ignore[no-untyped-def]
    if name == "bob":
        raise LookupError(f"no mailbox: {name}")
    return f"{context.attempt} welcome, {name}"


def main() -> None:
    results = []
    with transaction.atomic():  # the task is enqueued once the transaction has committed
        transaction.on_commit(lambda: results.append(welcome.enqueue("ann")))
        transaction.on_commit(lambda: results.append(welcome.enqueue(name="bob")))
    print(results[0].status)
    with task_backends["default"].worker() as worker:
        for result in results:
            worker.wait(result.id, timeout=30)
            result.refresh()
    print(results[0].status, results[0].return_value)
    print(results[1].status, results[1].errors[0].traceback.splitlines()[-1].partition(": ")[2])


if __name__ == "__main__":
    main()
