"""What a worker may lack for a job: a handler for its name, one of a version that its data was written for, or a key
that it is encrypted with.

Each kind says which jobs it concerns (`where`), which worker does not lack it (`met_by`), and what their `held` says
when nobody has it. `Triage` does the rest, the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mainspring.model.reserved import cure_for
from mainspring.store.connection import Document
from mainspring.store.tending import NO_HANDLER, NO_KEY, TOO_NEW
from mainspring.store.workers import Peer


class Lack(Protocol):
    """One thing that is lacking; equal for all jobs that lack the same."""

    by: ClassVar[str]
    """What their `held` says that they are held by."""

    @property
    def where(self) -> Document:
        """The jobs that it concerns."""
        ...

    @property
    def what(self) -> str:
        """What is lacking, in words."""
        ...

    def met_by(self, peer: Peer, queue: str) -> bool:
        """Whether a worker could run such jobs from this queue."""
        ...

    def note(self, queue: str) -> str:
        """Why such a job waits, when no worker of its queue could run it."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class NoHandler:
    """No handler for a name."""

    by: ClassVar[str] = NO_HANDLER
    name: str

    @property
    def where(self) -> Document:
        return {"name": self.name}

    @property
    def what(self) -> str:
        return f"a handler for {self.name!r}"

    def met_by(self, peer: Peer, queue: str) -> bool:
        return peer.serves(queue, self.name)

    def note(self, queue: str) -> str:
        cure = cure_for(self.name)
        text = f"No live worker that serves the queue {queue!r} has a handler for {self.name!r}."
        return text if cure is None else f"{text} {cure}"


@dataclass(frozen=True, slots=True)
class TooNew:
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

    def met_by(self, peer: Peer, queue: str) -> bool:
        return peer.serves(queue, self.name) and peer.takes(self.name, self.version)

    def note(self, queue: str) -> str:
        return (
            f"Its data is of version {self.version}, and no live worker that serves the queue {queue!r} has a handler "
            f"for {self.name!r} of that version or a later one."
        )


@dataclass(frozen=True, slots=True)
class NoKey:
    """A handler for the name, but not the keys that the job is encrypted with, or none to encrypt its result with."""

    by: ClassVar[str] = NO_KEY
    name: str
    kids: tuple[str, ...]

    @property
    def where(self) -> Document:
        return {"name": self.name, **({"sealed": {"$all": list(self.kids)}} if self.kids else {})}

    @property
    def what(self) -> str:
        return (
            f"the key {', '.join(map(repr, self.kids))} for {self.name!r}" if self.kids else f"a key for {self.name!r}"
        )

    def met_by(self, peer: Peer, queue: str) -> bool:
        return peer.serves(queue, self.name) and peer.opens(self.kids)

    def note(self, queue: str) -> str:
        who = f"no live worker that serves the queue {queue!r} and has a handler for {self.name!r} has"
        if not self.kids:
            return f"What {self.name!r} finds out is to be encrypted, and {who} a key."
        which = "that key" if len(self.kids) == 1 else "those keys"
        return f"It is encrypted with {', '.join(map(repr, self.kids))}, and {who} {which}."


def any_of(lacks: Sequence[Lack]) -> Document:
    """The jobs that lack any of these."""
    names = [lack.name for lack in lacks if isinstance(lack, NoHandler)]
    parts: list[Document] = [{"name": {"$in": names}}] if names else []
    parts += [lack.where for lack in lacks if not isinstance(lack, NoHandler)]
    return parts[0] if len(parts) == 1 else {"$or": parts}


def none_of(lacks: Sequence[Lack], names: Sequence[str] | None) -> Document:
    """The jobs that lack none of these, where `names` are all that have a handler; None: any name has."""
    filter: Document = {}
    if names is not None and any(isinstance(lack, NoHandler) for lack in lacks):
        filter["name"] = {"$in": list(names)}
    others = [lack.where for lack in lacks if not isinstance(lack, NoHandler)]
    if others:
        filter["$nor"] = others
    return filter
