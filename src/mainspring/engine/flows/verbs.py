"""What a handler that waits asks of its worker, as values that can be sent from a process of the handler's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from mainspring.engine.handlers import Named
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job


@dataclass(frozen=True, slots=True)
class Begun:
    """Whether the children of a wait exist, from an earlier run, and how many there are."""

    sealed: bool
    total: int = 0


@dataclass(frozen=True, slots=True)
class Portion:
    """Some of the children of a wait, to be stored."""

    wait: str
    job: Named
    items: Sequence[Any]
    start: int
    digests: Sequence[bytes] | None
    single: bool
    options: Fields


@dataclass(frozen=True, slots=True)
class Asked:
    """A wait of a handler whose children are stored."""

    name: str
    total: int
    tolerate: int = 0
    fail_fast: bool = False
    single: bool = False
    keyed: bool = False
    fresh: bool = False
    """Whether this run has stored a child: the children are not looked at before the wait is sealed."""
    counted: bool = False
    """Whether it is a map, whose children are counted when it is over: one that is gone was deleted by hand."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The ends of the children of a wait that is over."""

    name: str
    total: int
    failed: int = 0
    errors: tuple[tuple[str, str], ...] = ()
    child: Job | None = None
    """Of a call: the child."""
    plain: bool = True
    """Of a call: whether its result may be kept with the parent; the result of an encrypted child may not."""


@dataclass(frozen=True, slots=True)
class SignalAsked:
    """A wait for a signal: the name of the wait, that of the signal, and for how many seconds it lasts at most."""

    name: str
    signal: str
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """What has become of a wait for a signal: it was taken, its time is over (no `signal`), or it goes on (`open`)."""

    open: bool
    signal: str | None = None
    payload: Any = None


class FlowAgent(Protocol):
    """Carries out the requests of a handler that waits: the worker, or the pipe to it."""

    async def begin(self, name: str) -> Begun: ...

    async def spawn(self, portion: Portion) -> bool:
        """Store children; returns whether one of them is new."""

    async def check_last(self, name: str, total: int, keyed: bool, single: bool) -> None: ...

    async def settle(self, asked: Sequence[Asked]) -> list[Settled] | None:
        """The ends of these waits; None where one is not over, and the handler is suspended."""

    async def page(self, name: str, start: int, count: int) -> list[Job]: ...

    async def read(self, name: str, digests: Sequence[bytes] | None) -> list[Job]: ...

    async def below(self, parent: str, keyed: bool, after: str | None) -> list[Job]:
        """The next jobs of a map node, or of a batch, that this node came after."""

    async def grow(self, name: Named, data: Any, options: Fields) -> str: ...

    async def listen(self, asked: SignalAsked, taken: Sequence[str]) -> Heard:
        """Look for a signal; `taken` are those that kept steps name. Where there is none yet, the handler is to be
        suspended."""

    async def taken(self, ids: Sequence[str]) -> None:
        """Mark signals that kept steps name."""

    async def sleep(self, name: str, until: datetime) -> bool:
        """Whether this time has come; otherwise the handler is suspended until then."""

    async def now(self) -> datetime: ...


VERBS = ("begin", "spawn", "check_last", "settle", "page", "read", "below", "grow", "listen", "taken", "sleep", "now")
