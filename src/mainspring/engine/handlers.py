"""The registry of handlers. `engine/handler.py` is one of them, and binds a job's data to its arguments.

A handler is registered by name in code; nothing in the database can name a function.

A producer without the handler of a job takes the defaults that live workers have registered: the queue, the priority,
the guarantee, and the encrypted fields. It reads them when a job of such a name is scheduled, at most once in a few
seconds; a bulk, whose names are not known beforehand, reads them at its beginning. Nothing is read while nothing is
scheduled. If they cannot be read, the last read ones stay in force, and scheduling goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mainspring.clock import monotonic
from mainspring.engine.handler import Handler, plain_function
from mainspring.errors import HandlerError, InvalidJob
from mainspring.model.fields import Fields
from mainspring.model.jobs.data_schema import Misfit, find_misfit
from mainspring.model.jobs.declared_defaults import JobDefaults, Registered
from mainspring.model.jobs.handler_status import HandlerStatus, schema_in
from mainspring.model.jobs.payload_versions import FIRST_VERSION
from mainspring.model.jobs.reserved_names import FLOW_NAMES, hint_for
from mainspring.model.limits.limits import JobLimits
from mainspring.store import Store
from mainspring.store.collection import deadline

if TYPE_CHECKING:
    from mainspring.model.dead_letters.dead_letters import Alert

Named = str | Callable[..., Any]
"""A job's name, given as text or as the function that handles it."""
logger = logging.getLogger("mainspring")

UNKNOWN_HANDLERS = "mainspring.unknown_handlers"
"""The logger of names without a handler, which the commands switch off: they say it in their own output."""
_unknown_handlers = logging.getLogger(UNKNOWN_HANDLERS)

_USED_FOR = 5.0
_LOOKED_FOR_AGAIN = 1.0
_PATIENCE = 2.0
_WARN_EVERY = 600.0
_WARNED_AT_MOST = 1000


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
        self._of_flows: dict[str, Handler] | None = None
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
        return self._by_name.get(name) or self._builtin(name) or self.catch_all

    def _builtin(self, name: str) -> Handler | None:
        """The handler of a job that every worker runs: the root of a flow."""
        if name not in FLOW_NAMES:
            return None
        if self._of_flows is None:
            from mainspring.engine.flows.declared import builtin_handlers  # few programs that store jobs start flows

            self._of_flows = builtin_handlers()
        return self._of_flows[name]

    def own(self, name: str) -> Handler | None:
        """The handler of a name, without the catch-all."""
        return self._by_name.get(name)

    def takes(self, name: str, version: int) -> bool:
        """Whether a handler here can run data of this version. The catch-all takes data of any version, unchanged."""
        handler = self._by_name.get(name) or self._builtin(name)
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
        from mainspring.engine.handler_schemas import told_descriptions  # imports pydantic

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
                f"{_place(name)} is not a handler of this scheduler; put @scheduler.job() above it, or give a job's "
                "name."
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
        return None if self.catch_all is not None else sorted({*self._by_name, *FLOW_NAMES})

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


# -- handlers of live workers ----------------------------------------------------------------------------------------


class LiveHandlers:
    """The registry of live workers, as a Scheduler read it a few seconds ago."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._store: Store | None = None
        self._registered: Registered | None = None
        self._read_at = float("-inf")
        self._reading: asyncio.Future[None] | None = None
        self._warned: dict[str, float] = {}
        self._schemas: dict[str, tuple[float, HandlerStatus | None]] = {}

    def defaults(self, name: str) -> JobDefaults | None:
        """The known defaults of the jobs of a name: from this process's own handler, else from live workers."""
        handler = self._handlers.own(name)
        if handler is not None:
            return handler.defaults
        return None if self._registered is None else self._registered.defaults.get(name)

    async def look(self, store: Store, name: str | None = None) -> bool:
        """Read the registry of live workers, if that is needed for a name, or for any; return whether it was read."""
        if name is not None and self._handlers.own(name) is not None:
            return False
        if store is not self._store:  # another connection, maybe on another event loop
            self._store, self._registered = store, None
            self._reading, self._read_at = None, float("-inf")
            self._schemas = {}
        if not self._is_old(name):
            return False
        while self._is_old(name):  # once more, if the call that was reading is cancelled
            if self._reading is None:
                await self._read_for_all(store)
            else:
                await asyncio.shield(self._reading)
        return True

    async def check(
        self, store: Store, name: str, data: Mapping[str, Any], version: int | None = None
    ) -> Misfit | None:
        """The first place at which data does not fit the handler of a name, by the schema that this process or a live
        worker knows; None if it fits, or if that is not known. Data of another payload `version` is not checked."""
        known = await self._schema(store, name)
        if known is None:
            return None
        schema, of_version = known
        return find_misfit(schema, data) if (version or FIRST_VERSION) == of_version else None

    async def _schema(self, store: Store, name: str) -> tuple[Mapping[str, Any], int] | None:
        own = self._handlers.own(name)
        if own is not None:
            schema = schema_in(own.description.to_document())
            return None if schema is None else (schema, own.version)
        if self._handlers.catch_all is not None:
            return None
        status = await self._described(store, name)
        return None if status is None or status.schema is None else (status.schema, status.version)

    async def _described(self, store: Store, name: str) -> HandlerStatus | None:
        """The handler of a name in live workers, as it was read a few seconds ago. A read that fails checks nothing:
        scheduling goes on without it."""
        read_at, known = self._schemas.get(name, (float("-inf"), None))
        if monotonic() - read_at < (_USED_FOR if known is not None else _LOOKED_FOR_AGAIN):
            return known
        try:
            with deadline(_PATIENCE):
                found = await store.workers.handlers(name)
        except Exception as error:
            logger.debug("The schema of %r could not be read (%s); its data is not checked", name, error)
            found = []
        if len(self._schemas) >= _WARNED_AT_MOST:
            self._schemas.clear()
        # While old and new workers run, either may take the job: its data is not checked.
        status = found[0] if found and len(found[0].versions) == 1 else None
        self._schemas[name] = (monotonic(), status)
        return status

    async def _read_for_all(self, store: Store) -> None:
        """Read the registry; concurrent calls wait for this read and go on together, so that they share a write."""
        self._reading = reading = asyncio.get_running_loop().create_future()
        try:
            await self._read(store)
        finally:
            if self._reading is reading:
                self._reading = None
            reading.set_result(None)

    def _is_old(self, name: str | None) -> bool:
        """Whether to read anew. A name without a handler is looked for again sooner: a worker may have one now."""
        known = self._registered is not None and (name is None or name in self._registered.defaults)
        return monotonic() - self._read_at >= (_USED_FOR if known else _LOOKED_FOR_AGAIN)

    async def _read(self, store: Store) -> None:
        try:
            with deadline(_PATIENCE):
                self._registered = await store.workers.registered()
        except Exception as error:
            if self._may_warn(""):
                logger.warning(
                    "The registry of live workers could not be read (%s); jobs whose handler this process does "
                    "not have get the queue, priority and encryption that were known before, or the defaults",
                    error,
                )
        self._read_at = monotonic()

    def warn_of(self, name: str) -> None:
        """Log, once in a while, a name that neither this process nor a live worker has a handler for."""
        registered = self._registered
        if registered is None or registered.any_name or name in registered.defaults:
            return
        if self._handlers.get(name) is not None or not self._may_warn(name):
            return
        hint = hint_for(name, {*registered.defaults, *self._handlers.own_names})
        _unknown_handlers.warning(
            "No live worker has a handler for %r. Jobs of this name wait for one, and are stored without the queue, "
            "priority and encryption that it declares.%s",
            name,
            hint,
        )

    def _may_warn(self, subject: str) -> bool:
        now = monotonic()
        if now - self._warned.get(subject, float("-inf")) < _WARN_EVERY:
            return False
        if len(self._warned) >= _WARNED_AT_MOST:
            self._warned = {one: at for one, at in self._warned.items() if now - at < _WARN_EVERY}
            if len(self._warned) >= _WARNED_AT_MOST:
                return False
        self._warned[subject] = now
        return True
