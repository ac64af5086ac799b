"""The requirements of a job on its worker: a handler for its name, of the version that its data was written for or a
later one, and the keys that it is encrypted with.

A `Requirement` is one of these that a worker has found missing. Each kind tells which jobs have it (`where`), which
worker meets it (`met_by`), and the `waiting_for` of the jobs while no worker does. `Triage` in
`engine/claim/triage.py` does the rest, the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mainspring.model.jobs.reserved_names import cure_for
from mainspring.model.workers import WorkerStatus
from mainspring.store.connection import Document
from mainspring.store.jobs.upkeep import NO_HANDLER, NO_KEY, TOO_NEW


class Requirement(Protocol):
    """One thing that a worker lacks; equal for all jobs that need it."""

    by: ClassVar[str]
    """The `by` in the `waiting_for` of these jobs."""

    @property
    def name(self) -> str:
        """The name of the jobs that need it."""
        ...

    @property
    def where(self) -> Document:
        """The filter of the jobs that need it."""
        ...

    @property
    def what(self) -> str:
        """The missing thing, in words."""
        ...

    def met_by(self, peer: WorkerStatus, queue: str) -> bool:
        """Whether a worker could run such jobs from this queue."""
        ...

    def note(self, queue: str) -> str:
        """The reason why such a job waits, when no worker of its queue could run it."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class MissingHandler:
    """No handler for a name."""

    by: ClassVar[str] = NO_HANDLER
    name: str

    @property
    def where(self) -> Document:
        return {"name": self.name}

    @property
    def what(self) -> str:
        return f"a handler for {self.name!r}"

    def met_by(self, peer: WorkerStatus, queue: str) -> bool:
        return _runs(peer, queue, self.name)

    def note(self, queue: str) -> str:
        cure = cure_for(self.name)
        text = f"No live worker that serves the queue {queue!r} has a handler for {self.name!r}."
        return text if cure is None else f"{text} {cure}"


@dataclass(frozen=True, slots=True)
class HandlerTooOld:
    """A handler for the name, but of an earlier version than the one that the data was written for."""

    by: ClassVar[str] = TOO_NEW
    name: str
    version: int

    @property
    def where(self) -> Document:
        return {"name": self.name, "data_v": self.version}

    @property
    def what(self) -> str:
        return f"version {self.version} of the handler for {self.name!r}"

    def met_by(self, peer: WorkerStatus, queue: str) -> bool:
        return _runs(peer, queue, self.name) and peer.takes(self.name, self.version)

    def note(self, queue: str) -> str:
        return (
            f"Its data is of version {self.version}, and no live worker that serves the queue {queue!r} has a handler "
            f"for {self.name!r} of that version or a later one."
        )


@dataclass(frozen=True, slots=True)
class MissingKey:
    """A handler for the name, but not the keys that the job is encrypted with, or none to encrypt its result with."""

    by: ClassVar[str] = NO_KEY
    name: str
    key_ids: tuple[str, ...]

    @property
    def where(self) -> Document:
        return {"name": self.name, **({"sealed": {"$all": list(self.key_ids)}} if self.key_ids else {})}

    @property
    def what(self) -> str:
        keys = f"the key {', '.join(map(repr, self.key_ids))}" if self.key_ids else "a key"
        return f"{keys} for {self.name!r}"

    def met_by(self, peer: WorkerStatus, queue: str) -> bool:
        return _runs(peer, queue, self.name) and bool(peer.keys) and peer.keys.issuperset(self.key_ids)

    def note(self, queue: str) -> str:
        worker = f"no live worker that serves the queue {queue!r} and has a handler for {self.name!r} has"
        if not self.key_ids:
            return f"What {self.name!r} finds out is to be encrypted, and {worker} a key."
        which = "that key" if len(self.key_ids) == 1 else "those keys"
        return f"It is encrypted with {', '.join(map(repr, self.key_ids))}, and {worker} {which}."


def _runs(worker: WorkerStatus, queue: str, name: str) -> bool:
    return worker.serves(queue) and worker.handles(name)


def any_of(requirements: Sequence[Requirement]) -> Document:
    """The filter of the jobs that need any of these."""
    names = [one.name for one in requirements if isinstance(one, MissingHandler)]
    parts: list[Document] = [{"name": {"$in": names}}] if names else []
    parts += [one.where for one in requirements if not isinstance(one, MissingHandler)]
    return parts[0] if len(parts) == 1 else {"$or": parts}


def none_of(requirements: Sequence[Requirement], names: Sequence[str] | None) -> Document:
    """The filter of the jobs that need none of these, where `names` have a handler; None: every name has."""
    filter: Document = {}
    if names is not None and any(isinstance(one, MissingHandler) for one in requirements):
        filter["name"] = {"$in": list(names)}
    others = [one.where for one in requirements if not isinstance(one, MissingHandler)]
    if others:
        filter["$nor"] = others
    return filter
