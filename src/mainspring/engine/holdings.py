"""What this worker holds: every claimed job from the claim to the moment its end is stored.

Shared by the event loop and the heartbeat's thread. The thread only reads attributes, renews batches and raises flags;
each of these is a single assignment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.handlers import Handler
from mainspring.model.ending import Ending
from mainspring.model.guarantee import AT_LEAST_ONCE
from mainspring.model.limits import Gate
from mainspring.model.redaction import NO_VEIL, Veil
from mainspring.model.sealing import kids_in
from mainspring.store.codec import DocumentId
from mainspring.store.sealing import Sealer


@dataclass(slots=True, eq=False)
class Holding:
    """One claimed job."""

    document: dict[str, Any]
    claim: str
    handler: Handler
    renewed_at: float
    """When the claim was made or last renewed (monotonic, taken before it was asked for)."""
    valid_until: float
    """Until when it surely holds: the lease, less the margin for fencing."""
    task: asyncio.Task[Ending] | None = None
    started: float | None = None
    started_at: datetime | None = None
    took: float | None = None
    """How many seconds its handler took."""
    renew_until: float = float("inf")
    cancelled: bool = False
    cancel_reason: str = ""
    lost: bool = False
    released: bool = False
    timed_out: bool = False
    executes: str = AT_LEAST_ONCE
    """The guarantee that counts for it."""
    ahead: bool = False
    """Claimed ahead, and the database does not know yet that it has been started."""
    frozen: bool = False
    """In a transaction that will write the document: not renewed meanwhile."""
    stored: Any = None
    """The data as it is stored, where its handler is shown something else in the document; None where it is not."""
    stored_steps: list[Any] | None = None
    """The same for its steps."""
    sealer: Sealer | None = None
    """Seals what its handler finds out, where the job is encrypted."""
    secrets: Sequence[Any] = ()
    veil: Veil = NO_VEIL
    """Keeps these values of its data out of what is told and stored of the attempt."""
    gates: list[Gate] = field(default_factory=list)
    """The limits that it takes a slot of."""
    awaits: list[Gate] = field(default_factory=list)
    """The same while it is parked: it has no slot of them yet."""
    process: Any = None
    log: list[str] = field(default_factory=list)
    log_cut: int = 0
    unwritten: list[str] = field(default_factory=list)
    progress: dict[str, Any] | None = None
    progress_new: bool = False

    @property
    def id(self) -> DocumentId:
        job_id: DocumentId = self.document["_id"]
        return job_id

    @property
    def token(self) -> int:
        token: int = self.document["token"]
        return token

    @property
    def as_stored(self) -> dict[str, Any]:
        """The document with its data as it is stored, for telling others of the job."""
        if self.stored is None and self.stored_steps is None:
            return self.document
        kept = {"data": self.stored, "steps": self.stored_steps, "sealed": self._sealed_with}
        return {**self.document, **{key: value for key, value in kept.items() if value is not None}}

    @property
    def _sealed_with(self) -> list[str] | None:
        kids: list[str] = self.document.get("sealed") or []
        return kids or (None if self.stored_steps is None else sorted(kids_in(self.stored_steps)))

    def show(self, data: Mapping[str, Any]) -> None:
        """Let the handler see other data than what is stored."""
        if self.stored is None:
            self.stored = self.document.get("data") or {}
        self.document["data"] = data

    def step_kept(self, entry: dict[str, Any]) -> None:
        """A step is stored; its handler sees its result, others what is stored."""
        if self.sealer is not None:
            self.stored_steps = [*(self.stored_steps or ()), entry]

    @property
    def stopping(self) -> bool:
        """Whether the handler should come to an end."""
        return self.cancelled or self.lost or self.released or self.timed_out

    def interrupt(self) -> None:
        """Cancel the handler, on the event loop."""
        if self.process is not None:
            self.process.kill()
        elif self.task is not None and not self.task.done():
            self.task.cancel()


class Holdings:
    """All claimed jobs of this worker, by id."""

    def __init__(self) -> None:
        self._by_id: dict[DocumentId, Holding] = {}

    def add(self, holding: Holding) -> None:
        self._by_id[holding.document["_id"]] = holding

    def remove(self, holding: Holding) -> None:
        if self._by_id.get(holding.document["_id"]) is holding:
            del self._by_id[holding.document["_id"]]

    def get(self, job_id: DocumentId) -> Holding | None:
        return self._by_id.get(job_id)

    def all(self) -> list[Holding]:
        return list(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)
