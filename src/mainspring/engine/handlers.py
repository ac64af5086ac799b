"""The registry of handlers. `engine/handler.py` is one of them, and binds a job's data to its arguments.

A handler is registered by name in code; nothing in the database can name a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.engine.handler import Handler, plain_function
from mainspring.engine.handler_schemas import told_descriptions
from mainspring.errors import HandlerError, InvalidJob
from mainspring.model.dead_letters.dead_letters import Alert
from mainspring.model.fields import Fields
from mainspring.model.jobs.payload_versions import (
    FIRST_VERSION,
)
from mainspring.model.limits.limits import JobLimits

Named = str | Callable[..., Any]
"""A job's name, given as text or as the function that handles it."""


class Handlers:
    """All handlers of a Scheduler, and the catch-all, if it has one."""

    def __init__(self, catch_all: Handler | None = None) -> None:
        self._by_name: dict[str, Handler] = {}
        self.limited = False
        """Whether any handler has limits. Read for each job that is scheduled."""
        self.isolate_suspects = True
        """Whether a job whose worker has died runs in a process of its own. Not in tests, which would not see there
        what its handler does."""
        self.catch_all = catch_all
        self.builtin: dict[str, Handler] = {}
        """The handlers of the jobs that every worker runs: the roots of flows. They are not among the names."""
        self.alerts: dict[str, Alert] = {}
        """The alerts of the handlers that receive dead letters, by name."""

    def add(self, handler: Handler) -> Handler:
        """Register a handler, and return it."""
        existing = self._by_name.get(handler.name)
        if existing is not None and not _same_place(existing.function, handler.function):
            raise HandlerError(
                f"Two handlers are registered for {handler.name!r}: {_place(existing.function)} and "
                f"{_place(handler.function)}. Give one of them another name."
            )
        self._by_name[handler.name] = handler
        self._look_for_limits()
        return handler

    def get(self, name: str) -> Handler | None:
        """The handler of a name, or the catch-all."""
        return self._by_name.get(name) or self.builtin.get(name) or self.catch_all

    def own(self, name: str) -> Handler | None:
        """The handler of a name, without the catch-all."""
        return self._by_name.get(name)

    def takes(self, name: str, version: int) -> bool:
        """Whether a handler here can run data of this version. The catch-all takes data of any version, unchanged."""
        handler = self._by_name.get(name) or self.builtin.get(name)
        return self.catch_all is not None if handler is None else version <= handler.version

    @property
    def versions(self) -> dict[int, list[str]]:
        """The names that have a handler of their own, by its version."""
        found: dict[int, list[str]] = {}
        for name, handler in sorted(self._by_name.items()):
            found.setdefault(handler.version, []).append(name)
        return found

    @property
    def told(self) -> Fields:
        """The facts about the handlers for the registry: their versions above the first, or all if there is a
        catch-all, which takes any; and the job options that they declare, as far as these are not the defaults."""
        versions = [
            {"name": name, "version": version}
            for version, names in self.versions.items()
            for name in names
            if version > FIRST_VERSION or self.catch_all is not None
        ]
        declared = ((name, handler.defaults.to_document()) for name, handler in sorted(self._by_name.items()))
        return {"versions": versions, "defaults": [{"name": name, **told} for name, told in declared if told]}

    @property
    def descriptions(self) -> list[dict[str, str]]:
        """The descriptions of the handlers for the registry."""
        return told_descriptions(handler for _, handler in sorted(self._by_name.items()))

    @property
    def own_names(self) -> list[str]:
        """The names that have a handler of their own."""
        return list(self._by_name)

    def name_of(self, function: Callable[..., Any]) -> str | None:
        """The name that a function is the handler of, if it is one."""
        plain = plain_function(function)
        return next((name for name, handler in self._by_name.items() if handler.function is plain), None)

    def named(self, name: Named) -> str:
        """The name of jobs, from the name itself or from the function that handles them."""
        if not callable(name):
            return name
        found = self.name_of(name)
        if found is None:
            raise InvalidJob(
                f"{_place(name)} is no handler of this scheduler; put @scheduler.job() above it, or give a job's name."
            )
        return found

    def remove(self, name: str) -> None:
        self._by_name.pop(name, None)
        self._look_for_limits()

    def _look_for_limits(self) -> None:
        self.limited = any(handler.allowance for handler in self._by_name.values())

    def executing(self, guarantee: str) -> list[str]:
        """The names whose handlers have chosen this guarantee."""
        return sorted(name for name, handler in self._by_name.items() if handler.guarantee == guarantee)

    @property
    def fair(self) -> bool:
        """Whether the keys of any handler's jobs are in round robin."""
        return any(handler.allowance.fair is not None for handler in self._by_name.values())

    @property
    def queues(self) -> set[str]:
        """The queues that handlers have chosen for their jobs."""
        return {handler.queue for handler in self._by_name.values() if handler.queue is not None}

    @property
    def allowances(self) -> dict[str, JobLimits]:
        """The limits of job names, as far as they have any."""
        return {name: handler.allowance for name, handler in list(self._by_name.items()) if handler.allowance}

    @property
    def runnable(self) -> list[str] | None:
        """The names of the jobs that can be run here, with those that every worker runs; None means any."""
        return None if self.catch_all is not None else sorted({*self._by_name, *self.builtin})

    @property
    def names(self) -> list[str] | None:
        """The names of the jobs that can be run here; None means any."""
        return None if self.catch_all is not None else sorted(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name) + (self.catch_all is not None)


def _place(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def _same_place(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions have the same place: a module that is loaded again registers its function anew, without
    a conflict."""
    return _place(one) == _place(other)
