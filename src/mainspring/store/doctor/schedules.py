"""Finding schedules that never fire: the newest thousand are read, along the index of their creation."""

from __future__ import annotations

from dataclasses import dataclass, field

from mainspring.model.doctor.facts import ServiceFacts, SilentSchedule
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.schema import BY_ID, CREATED
from mainspring.store.shapes import SCHEDULE

_READ = 1000


@dataclass(slots=True)
class ScheduleLook:
    """The schedules that were looked at: those that never fire, and the id and job name of those that will."""

    silent: list[SilentSchedule] = field(default_factory=list)
    firing: list[tuple[str, str]] = field(default_factory=list)
    read: int = 0
    complete: bool = True


class ScheduleReads:
    """The store's verbs for the doctor's checks of schedules and of the service."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def look(self) -> ScheduleLook:
        """Look at the newest schedules. A schedule that has ended after its runs is in order."""
        fields = {"job.name": 1, "fire_at": 1, "paused": 1, "runs": 1, "live": 1, "making": 1, "created_at": 1}
        found = await self._connection.schedules.find_all(
            {}, fields, sort=[("created_at", -1), ("_id", -1)], hint=CREATED, limit=_READ
        )
        look = ScheduleLook(read=len(found), complete=len(found) < _READ)
        for document in found:
            self._note(look, document)
        return look

    def _note(self, look: ScheduleLook, document: Document) -> None:
        fitted = fit(document, SCHEDULE)
        job, schedule_id = fitted.document.get("job") or {}, str(document["_id"])
        name, runs = str(job.get("name") or ""), int(fitted.document.get("runs") or 0)
        if fitted.error is not None:
            look.silent.append(SilentSchedule(schedule_id, name, runs, fitted.error))
        elif fitted.document.get("fire_at") is not None:
            look.firing.append((schedule_id, name))
        elif not any(fitted.document.get(key) for key in ("paused", "live", "making")):
            look.silent.append(SilentSchedule(schedule_id, name, runs))

    async def service(self, keys: int, admins: int) -> ServiceFacts:
        """Whether the HTTP service has been used on this database, with the numbers of its keys."""
        used = await self._connection.service.find_one({}, {"_id": 1}, hint=BY_ID)
        return ServiceFacts(used is not None, keys, admins)
