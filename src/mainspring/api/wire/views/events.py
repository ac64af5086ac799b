"""Digests of events: what has changed since the last one, for pages that read again what they show."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from mainspring.api.wire.base import Instant, Out
from mainspring.model.views.changes import CONTROL, JOB, Change

_MOST = 100
"""How many ids, names, queues and schedules a digest lists."""
_CREATED = "created"


class DigestOut(Out):
    """Changes of a short time. A list is null if there were too many to list."""

    at: Instant
    jobs: int = Field(description="How many changes of jobs there were.")
    created: int = Field(description="How many of them were created.")
    ids: list[str] | None
    names: list[str] | None
    queues: list[str] | None
    schedules: list[str] | None = Field(description="Schedules that have changed, or whose jobs have.")
    flows: list[str] | None = Field(description="Flows whose jobs have changed.")
    controls: bool = Field(description="Whether a pause, a limit or a breaker has changed.")
    gap: bool = False

    def as_json(self) -> str:
        return self.model_dump_json()


class Digest:
    """Collects changes; its size is bounded, however many there are."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.place: str | None = None
        """The place of the last change in the stream."""
        self._jobs = self._created = 0
        self._controls = False
        self._seen: dict[str, set[str]] = {name: set() for name in ("ids", "names", "queues", "schedules", "flows")}

    def add(self, change: Change) -> None:
        """Add a change."""
        self.at, self.place = change.at, change.id
        if change.type == CONTROL:
            self._controls = True
        elif change.type == JOB:
            self._jobs += 1
            self._created += change.change == _CREATED
            self._note("ids", change.key)
            self._note("names", change.name)
            self._note("queues", change.queue)
            self._note("schedules", change.schedule_id)
            self._note("flows", change.flow_id)
        else:
            self._note("schedules", change.key)

    def _note(self, list_name: str, value: str | None) -> None:
        seen = self._seen[list_name]
        if value is not None and len(seen) <= _MOST:
            seen.add(value)

    def out(self) -> DigestOut:
        return DigestOut(
            at=self.at,
            jobs=self._jobs,
            created=self._created,
            ids=self._listed("ids"),
            names=self._listed("names"),
            queues=self._listed("queues"),
            schedules=self._listed("schedules"),
            flows=self._listed("flows"),
            controls=self._controls,
        )

    def _listed(self, list_name: str) -> list[str] | None:
        seen = self._seen[list_name]
        return sorted(seen) if len(seen) <= _MOST else None
