"""What this worker holds: every claimed job from the claim to the moment its end is stored.

Shared by the event loop and the heartbeat's thread. The thread only reads attributes, renews batches and raises flags;
each of these is a single assignment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.handlers import Handler
from mainspring.model.ending import Ending
from mainspring.model.limits import Gate
from mainspring.store.codec import DocumentId


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
    renew_until: float = float("inf")
    cancelled: bool = False
    cancel_reason: str = ""
    lost: bool = False
    released: bool = False
    timed_out: bool = False
    ahead: bool = False
    """Claimed ahead, and the database does not know yet that it has been started."""
    frozen: bool = False
    """In a transaction that will write the document: not renewed meanwhile."""
    gates: list[Gate] = field(default_factory=list)
    """The limits that it takes a slot of."""
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
