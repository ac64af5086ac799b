"""The handlers of live workers, as the registry describes them: for lists, for forms, and for checks of data. Pure.

A worker writes a description of each of its handlers: the first line of its docstring, and the JSON Schema of its data
as text. The text is bounded; a handler whose schema cannot be made, or is too long, has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mainspring.model.access.api_keys import Scope
from mainspring.model.jobs.declared_defaults import PLAIN, JobDefaults
from mainspring.model.jobs.payload_versions import FIRST_VERSION
from mainspring.model.jobs.reserved_names import RESERVED
from mainspring.model.workers import WorkerStatus

MAX_SCHEMA = 16 * 1024
"""The bytes of one handler's schema, as text."""
MAX_SCHEMAS = 256 * 1024
"""The bytes of all schemas that one worker writes."""
MAX_DESCRIPTION = 200


@dataclass(frozen=True, slots=True)
class HandlerDescription:
    """A handler as its worker describes it."""

    description: str | None = None
    schema: str | None = None
    """The JSON Schema of the data, as text."""

    def to_document(self) -> dict[str, str]:
        given = {"description": self.description, "schema": self.schema}
        return {key: value for key, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class HandlerStatus:
    """The handler of a name in live workers. If they disagree, as during a deploy, the worker that started last
    counts."""

    name: str
    description: str | None = None
    """The first line of its docstring."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of its data; None where it cannot be made, or is too long."""
    queue: str = PLAIN.queue
    """The queue of its jobs where no other is given."""
    priority: int = PLAIN.priority
    guarantee: str | None = None
    encrypted: bool = False
    """Whether it declares that data is stored encrypted."""
    version: int = FIRST_VERSION
    """Its payload version."""
    versions: tuple[int, ...] = (FIRST_VERSION,)
    """All payload versions in live workers."""
    workers: int = 0
    """The number of live workers that have it."""
    queues: tuple[str, ...] | None = None
    """The queues that these workers serve; None: all of them."""
    served_by: tuple[WorkerStatus, ...] = field(default=(), repr=False, compare=False)

    def within(self, scope: Scope) -> HandlerStatus:
        """The handler as a key with this scope sees it: with the workers that serve a queue of the scope."""
        if scope.queues is None:
            return self
        reached = [one for one in self.served_by if one.queues is None or set(one.queues) & set(scope.queues)]
        queues = None if self.queues is None else tuple(queue for queue in self.queues if queue in scope.queues)
        return replace(self, workers=len(reached), queues=queues)


def handlers_of(workers: Iterable[WorkerStatus]) -> dict[str, HandlerStatus]:
    """The handlers of live workers by name, without their descriptions. Mainspring's own jobs are left out."""
    by_name: dict[str, list[WorkerStatus]] = {}
    for worker in sorted(workers, key=started_first):
        for name in worker.defaults:
            if not name.startswith(RESERVED):
                by_name.setdefault(name, []).append(worker)
    return {name: _status(name, by_name[name]) for name in sorted(by_name)}


def started_first(worker: WorkerStatus) -> tuple[float, str]:
    """The order in which workers were started."""
    return (0.0 if worker.started_at is None else worker.started_at.timestamp()), worker.id


def _status(name: str, workers: list[WorkerStatus]) -> HandlerStatus:
    latest = workers[-1]
    declared: JobDefaults = latest.defaults[name]
    served = [worker.queues for worker in workers]
    known = {queue for queues in served for queue in queues or ()}
    return HandlerStatus(
        name,
        queue=declared.queue,
        priority=declared.priority,
        guarantee=declared.guarantee,
        encrypted=declared.encrypt is not None,
        version=_version(latest, name),
        versions=tuple(sorted({_version(worker, name) for worker in workers})),
        workers=len(workers),
        queues=None if None in served else tuple(sorted(known)),
        served_by=tuple(workers),
    )


def _version(worker: WorkerStatus, name: str) -> int:
    return worker.versions.get(name, FIRST_VERSION)


def described(status: HandlerStatus, description: Mapping[str, Any]) -> HandlerStatus:
    """The handler with the description that a worker has written; another program may have written it, in any form."""
    text = description.get("description")
    return replace(
        status,
        description=text[:MAX_DESCRIPTION] if isinstance(text, str) else None,
        schema=schema_in(description),
    )


def schema_in(description: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of a description, if it has a readable one."""
    text = description.get("schema")
    if not isinstance(text, str) or len(text) > MAX_SCHEMA:
        return None
    try:
        schema = json.loads(text)
    except ValueError:
        return None
    return schema if isinstance(schema, dict) else None
