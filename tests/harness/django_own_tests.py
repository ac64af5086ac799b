"""Runs the tests that Django has of tasks, or the package django-tasks has of them, against the backend of Mainspring.

    PYTHONPATH=tests python -m harness.django_own_tests FOLDER URI

The folder is `tests` of the source of Django, or the source of django-tasks: neither is in an installed package. Every
test of tasks and of the backend that only keeps them is run, but those that are about that backend itself.
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import django
from django.conf import settings

from mainspring.integrations.django.backend import MainspringBackend

ABOUT_THE_OTHER = {
    "test_using_correct_backend": "the class of the other backend, and its options",
    "test_get_backend": "the class of the other backend",
    "test_refresh_result": "changes a result in the memory of the other backend",
    "test_refresh_result_async": "changes a result in the memory of the other backend",
}
_PLACES = {"tasks/test_tasks.py": "tasks", "tests/tests/test_tasks.py": "tests.tests"}
_CASES = {"test_tasks": "TaskTestCase", "test_dummy_backend": "DummyBackendTestCase"}


class TestedBackend(MainspringBackend):
    """The backend, with the two names by which the tests look into the other one."""

    def clear(self) -> None:
        def delete() -> None:
            for job in list(self.scheduler.jobs()):
                self.scheduler.delete(job.id)

        _elsewhere(delete)

    @property
    def results(self) -> list[Any]:
        found: list[Any] = _elsewhere(lambda: [self.result_of(job) for job in self.scheduler.jobs()])
        return found


def _elsewhere(call: Callable[[], Any]) -> Any:
    """Call a blocking function in another thread: some tests are on an event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def cases(folder: Path, uri: str) -> Iterator[type[unittest.TestCase]]:
    """The test cases, with the backend of Mainspring in the place of the other one."""
    from django.test import override_settings

    package = next(name for place, name in _PLACES.items() if (folder / place).exists())
    for module, name in _CASES.items():
        case: Any = getattr(import_module(f"{package}.{module}"), name)
        aliases = dict(case._overridden_settings["TASKS"])
        backend = f"{__name__ if __name__ != '__main__' else 'harness.django_own_tests'}.TestedBackend"
        aliases["default"] = {**aliases["default"], "BACKEND": backend, "OPTIONS": {"uri": uri}}
        tests = {test: None for test in ABOUT_THE_OTHER if hasattr(case, test)}
        yield override_settings(TASKS=aliases)(type(f"{name}OnMainspring", (case,), tests))


def main(folder: Path, uri: str) -> int:
    sys.path.insert(0, str(folder))
    settings.configure(
        INSTALLED_APPS=["mainspring.integrations.django"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        USE_TZ=True,
    )
    django.setup()
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases(folder, uri))
    outcome = unittest.TextTestRunner(stream=sys.stdout).run(suite)
    print(f"Django {django.get_version()}: {outcome.testsRun} tests")
    return 0 if outcome.wasSuccessful() and outcome.testsRun > 40 else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
