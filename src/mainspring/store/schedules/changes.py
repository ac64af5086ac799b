"""Changing one schedule: settle its due firings, decide the change, and write it together with the next firing.

Every change is a compare-and-set on the schedule's `rev`, as every decision of the engine is
(`store/schedules/firing.py`), so that neither overwrites the other. Before a change, the firings that have come due
under the old rule are settled; then the new rule is in force at once. A running job has nothing to write back.
`store/schedules/schedules.py` has the verbs that use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from weakref import WeakValueDictionary

from mainspring.clock import truncate
from mainspring.errors import (
    InvalidSchedule,
    ScheduleNotFound,
    ScheduleStateError,
)
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.schedules.ledger import SKIPPED
from mainspring.model.schedules.times import Times, is_after_end
from mainspring.store.compare_and_set import back_off, compare_and_set
from mainspring.store.connection import Connection, Document
from mainspring.store.reach import reached
from mainspring.store.schedules.calendars import Calendars
from mainspring.store.schedules.codec import (
    calendar_keys,
    check_sound,
    is_over,
    malformed,
    times_of,
)
from mainspring.store.schedules.decisions import REVISIT, unchanged
from mainspring.store.schedules.eras import MOMENT, is_moved, new_era, not_fired
from mainspring.store.schedules.firing import Fired, Firing
from mainspring.store.schema import BY_ID, FIRINGS

ATTEMPTS = 30
_PATIENT = 12


@dataclass(slots=True)
class Changed:
    """A schedule after a change, and the firings that were settled on the way."""

    document: Document
    fired: list[Fired] = field(default_factory=list)
    changed: bool = True


Alter = Callable[[Document, datetime], Awaitable[Document | None]]
"""Returns the fields to change in a settled schedule, given the time; None means none."""


class ScheduleChanges:
    """The protocol of a change, for the verbs of `Schedules`."""

    def __init__(self, connection: Connection, firing: Firing, calendars: Calendars) -> None:
        self._connection = connection
        self._firing = firing
        self._calendars = calendars
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def get(self, schedule_id: str, scope: Scope = EVERYTHING) -> Document:
        """The schedule. A schedule out of the scope does not exist for the caller."""
        reach = reached(scope, "job.queue", "job.name")
        document = await self._connection.schedules.find_one({"_id": schedule_id, **reach}, hint=BY_ID)
        if document is None:
            raise ScheduleNotFound(schedule_id)
        return document

    async def times(self, document: Document) -> Times:
        """The times of a stored schedule."""
        calendars = await self._calendars.in_force(set(calendar_keys(document)))
        return times_of(document["_id"], document, calendars)

    def now(self) -> datetime:
        """The server's time, as precise as a stored date."""
        return truncate(self._connection.clock.now())

    async def change(self, schedule_id: str, alter: Alter) -> Changed:
        """Settle the due firings of a schedule, then change it. Where its times change, the new ones count from now."""
        # Changes of one process wait for each other, since a compare-and-set is slow under contention.
        async with self._locks.setdefault(schedule_id, asyncio.Lock()):
            return await self._change(schedule_id, alter)

    async def _change(self, schedule_id: str, alter: Alter) -> Changed:
        fired: list[Fired] = []

        async def attempt(_: int) -> Changed | None:
            document, settled = await self._settled(schedule_id)
            fired.extend(settled)
            if "making" in document:
                self._refuse_stuck(schedule_id)
                return None
            now = self.now()
            fields = await alter(document, now)
            if fields is None:
                return Changed(document, fired, changed=False)
            await self.retime(document, fields, now)
            if not await self._write(document, fields, now):
                return None
            changed, settled = await self._settled(schedule_id, mine=True)
            return Changed(changed, fired + settled)

        return await compare_and_set(attempt, f"schedule {schedule_id!r}", ATTEMPTS, back_off)

    def _refuse_stuck(self, schedule_id: str) -> None:
        if schedule_id in self._firing.refused:
            raise ScheduleStateError(
                f"Schedule {schedule_id!r} cannot be changed: MongoDB refuses every change to its document (the log "
                "says why). Repair the document, or delete the schedule and make it again."
            )

    async def carried_out(self, schedule_id: str, *, mine: bool = False) -> tuple[Document, list[Fired]]:
        """A schedule whose decisions are all carried out. At first this call waits for a decision of another process:
        carrying it out at the same time would only conflict."""
        fired: list[Fired] = []
        for attempt in range(ATTEMPTS):
            document = await self.get(schedule_id)
            if not self.is_halfway(document):
                break
            if mine or attempt >= _PATIENT or document.get("fire_at", self.now()) <= self.now():
                fired += await self._firing.advance([document])
            else:
                await back_off(attempt)
        return document, fired

    def is_halfway(self, document: Document) -> bool:
        """Whether a stored decision can be carried out and has not been."""
        return "making" in document and document["_id"] not in self._firing.refused and malformed(document) is None

    async def _settled(self, schedule_id: str, *, mine: bool = False) -> tuple[Document, list[Fired]]:
        """A schedule whose due firings are all decided and carried out, and the firings that this call settled."""
        fired: list[Fired] = []
        for _ in range(ATTEMPTS):
            document, done = await self.carried_out(schedule_id, mine=mine)
            fired += done
            check_sound(document)
            look = document.get("fire_at")
            if look is None or look > self.now() or "paused" in document:
                return document, fired
            fired += await self._firing.advance([document])
        return await self.get(schedule_id), fired

    async def _write(self, document: Document, fields: Document, now: datetime) -> bool:
        put = {key: value for key, value in fields.items() if value is not None}
        drop = {key: "" for key, value in fields.items() if value is None}
        put |= {"told": now, "updated_at": now}
        update: Document = {"$set": put, "$inc": {"rev": 1}, **({"$unset": drop} if drop else {})}
        outcome = await self._connection.schedules.update_one(unchanged(document), update)
        return outcome.matched_count == 1

    async def retime(self, document: Document, fields: Document, now: datetime) -> None:
        """Add the time of the next firing, which follows from the fields that change, to these fields."""
        if document is not fields and is_moved(document, fields):
            await self._begin_era(document, fields, now)
        after = {**document, **fields}
        at, due = await self._next(after, fields)
        look = due
        if after.get("queued") or after.get("live"):
            look = now if due is None else min(due, now)
        fields |= {"next_at": at, "due_at": due, "fire_at": look}
        if fields.get("making") is not None:
            fields["making"]["then"] = look
            fields["fire_at"] = now + REVISIT

    async def _begin_era(self, document: Document, fields: Document, now: datetime) -> None:
        fields |= new_era(document, fields, now)
        if fields["cursor"] > now and not await self._skips_stay(document, fields):
            fields["cursor"] = fields["since"]
        making: Document = {}
        if document["cursor"] > fields["cursor"]:
            making["forgets"] = await self._skipped_after(document["_id"], fields["cursor"])
        if document.get("paused") is not None:
            with suppress(Exception):  # a rule that cannot be read has not fired
                making["rows"] = not_fired(document, await self.times(document), now)
        if any(making.values()):
            fields["making"] = making

    async def _next(self, after: Document, fields: Document) -> tuple[datetime | None, datetime | None]:
        """The next firing of a schedule after a change, and when it is due. A new rule must have one."""
        if is_over(after) or (after.get("paused") is not None and "rule" not in fields):
            return None, None
        times = await self.times(after)
        at = times.next(after["cursor"])
        if at is None and "rule" in fields:
            raise InvalidSchedule(f"Schedule {after['_id']!r} would never fire: its rule has no firing after now.")
        unknown = is_after_end(times.rule) and after.get("live")  # before the run has ended
        if at is None or unknown or after.get("paused") is not None:
            return None, None
        return at, times.due(at)

    async def _skips_stay(self, document: Document, fields: Document) -> bool:
        """Whether the new times have exactly the firings up to the cursor that were skipped by hand."""
        old, new = await self.times(document), await self.times({**document, **fields})
        span = fields["since"] + MOMENT, fields["cursor"] + MOMENT
        skipped = list(old.between(*span))
        return list(islice(new.between(*span), len(skipped) + 1)) == skipped

    async def _skipped_after(self, schedule_id: str, cursor: datetime) -> list[str]:
        """The rows of firings skipped by hand. They were firings of the old times: the new times may have the same."""
        ahead = {"schedule_id": schedule_id, "until": {"$gt": cursor}, "outcome": SKIPPED}
        return [row["_id"] for row in await self._connection.ledger.find_all(ahead, {"_id": 1}, hint=FIRINGS)]
