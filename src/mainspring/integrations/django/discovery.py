"""Finding the tasks of a project, and the backends of its setting TASKS."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from mainspring.errors import ConfigurationError
from mainspring.integrations.django.interface import Task, task_backends


def declared_tasks() -> Iterator[Any]:
    """The tasks in the modules `tasks` of all applications, which are imported for it, of whatever backend."""
    autodiscover_modules("tasks")
    for application in apps.get_app_configs():
        module = sys.modules.get(f"{application.name}.tasks")
        for value in list(vars(module).values()) if module is not None else ():
            if isinstance(value, Task):
                yield value


def open_backend(alias: str) -> Any:
    """The backend of an alias, if it is one of Mainspring."""
    from mainspring.integrations.django.backend import MainspringBackend

    backend = task_backends[alias]
    if not isinstance(backend, MainspringBackend):
        kind = f"{type(backend).__module__}.{type(backend).__qualname__}"
        raise ConfigurationError(
            f"TASKS[{alias!r}] is {kind}; the BACKEND must be mainspring.integrations.django.backend.MainspringBackend."
        )
    return backend
