"""Pages of schedules, their last runs, and windows of schedules for counting what is to come.

Every read is bounded, however many schedules there are: a page looks at so many schedules at most, and says where it
ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.clock import truncate
from mainspring.model.access.api_keys import Scope
from mainspring.model.schedules.ledger import Book, Entry, recent
from mainspring.model.schedules.schedule import ACTIVE, ENDED, PAUSED
from mainspring.model.schedules.search import (
    BY_NEXT,
    FAILING,
    Listed,
    Place,
    ScheduleSearch,
    is_failing,
    run_state,
)
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit, readable
from mainspring.store.reach import reached
from mainspring.store.schedules.calendars import Calendars
from mainspring.store.schedules.codec import CalendarsInForce, calendar_keys, decode_row, eras_of, malformed
from mainspring.store.schema import BY_ID, DUE
from mainspring.store.shapes import LEDGER_ROW, SCHEDULE

SCANNED, SCANNED_WITH_JOBS = 1500, 700
"""How many schedules are looked at for a page; the second where the job of each is read, too."""
WINDOW = 200
"""How many schedules are read at once for counting what is to come; each may need a calendar, too."""
_FIRST_BATCH = 100
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARED = (
    *("job.name", "job.queue", "job.tags", "paused", "next_at", "fire_at", "failures", "last", "rule.after"),
    "live",
)
_TIMING = (
    *("job.name", "job.queue", "rule", "start_at", "end_at", "jitter", "calendars", "cursor", "next_at", "paused"),
    *("max_runs", "runs"),
)
_OF_RUNS = {"_id": 1, "state": 1, "last_failure_at": 1}


@dataclass(slots=True)
class Page:
    """The schedules of a page, the place at which it ended (None: at the end of the list), and the states of jobs."""

    documents: list[Document] = field(default_factory=list)
    place: Place | None = None
    last_states: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recent:
    """The last firings of a schedule, in order, and the states of their jobs by id."""

    entries: list[Entry]
    states: Mapping[str, str]
    error: str | None = None


class ScheduleViews:
    """The store's verbs for looking at many schedules."""

    def __init__(self, connection: Connection, calendars: Calendars) -> None:
        self._connection = connection
        self._calendars = calendars

    # -- pages -----------------------------------------------------------------------------------------------------

    async def page(self, search: ScheduleSearch, limit: int, place: Place | None) -> Page:
        """The next schedules that match, from a place on."""
        most = (SCANNED_WITH_JOBS if search.state == FAILING else SCANNED) if search.filters else limit
        chosen: list[str] = []
        looked_at, size = 0, max(limit, _FIRST_BATCH) if search.filters else limit
        while True:
            size = min(size, most - looked_at)
            batch = await self._batch(search.order, place, size)
            matching = await self._matching(search, batch)
            for document in batch:
                place = _place(search.order, document)
                if document["_id"] in matching:
                    chosen.append(document["_id"])
                    if len(chosen) == limit:
                        return await self._filled(chosen, place, search.scope)
            looked_at, size = looked_at + len(batch), size * 4
            if len(batch) == 0 or looked_at >= most:
                break
        return await self._filled(chosen, place if looked_at >= most else None, search.scope)

    async def _batch(self, order: str, place: Place | None, size: int) -> list[Document]:
        """The next schedules in an order, with the fields that are compared."""
        schedules = self._connection.schedules
        if order != BY_NEXT:
            after = {"_id": {"$gt": "" if place is None else place.id}}
            return await schedules.find_all(after, _COMPARED, sort=[("_id", 1)], hint=BY_ID, limit=size)
        # A condition on both fields would read the index from its beginning; a bound begins at the place itself.
        bound = None if place is None else {"fire_at": place.at, "_id": place.id}
        found = await schedules.find_all(
            {"fire_at": {"$type": "date"}, "_id": {"$gt": ""}},
            _COMPARED,
            sort=[("fire_at", 1), ("_id", 1)],
            hint=DUE,
            limit=size + (place is not None),
            min=bound,
        )
        if place is not None and found and found[0]["_id"] == place.id and found[0]["fire_at"] == place.at:
            return found[1:]
        return found[:size]

    async def _matching(self, search: ScheduleSearch, batch: Sequence[Document]) -> set[str]:
        fitted = [fit(document, SCHEDULE).document for document in batch]
        found = [one for one in fitted if search.matches(_listed(one))]
        if search.state != FAILING:
            return {one["_id"] for one in found}
        states = await self.last_states(found, search.scope)
        return {one["_id"] for one in found if is_failing(one.get("failures", 0), states.get(one["_id"]))}

    async def _filled(self, ids: Sequence[str], place: Place | None, scope: Scope) -> Page:
        if not ids:
            return Page(place=place)
        found = await self._connection.schedules.find_dict({"_id": {"$in": list(ids)}}, {"eras": 0}, hint=BY_ID)
        documents = [found[id] for id in ids if id in found]
        return Page(documents, place, await self.last_states(documents, scope))

    async def last_states(self, documents: Iterable[Document], scope: Scope) -> dict[str, str]:
        """The state of the job of each schedule's last firing, as far as it is stored and within the scope."""
        return await self.states_of({document["_id"]: _last_job(document) for document in documents}, scope)

    async def states_of(self, jobs: Mapping[str, str | None], scope: Scope) -> dict[str, str]:
        """The states of jobs by what they are kept under, as far as they are stored and within the scope."""
        states = await self._run_states([job for job in jobs.values() if job is not None], scope)
        return {schedule_id: states[job] for schedule_id, job in jobs.items() if job in states}

    async def _run_states(self, ids: Sequence[str], scope: Scope) -> dict[Any, str]:
        if not ids:
            return {}
        found = await self._connection.jobs.find_all(
            {"_id": {"$in": list(ids)}, **reached(scope)}, _OF_RUNS, hint=BY_ID
        )
        return {one["_id"]: run_state(one.get("state"), "last_failure_at" in one) for one in found}

    # -- the last firings ------------------------------------------------------------------------------------------

    async def recent(self, ids: Sequence[str], count: int, scope: Scope) -> dict[str, Recent]:
        """The last firings of some schedules within the scope, by id."""
        now = truncate(self._connection.clock.now())
        found = await self._with_rows(ids, count, scope, now)
        sound = [one for one in found if malformed(one) is None]
        keys = {key for one in sound for era in (one, *one.get("eras", ())) for key in calendar_keys(era)}
        calendars = await self._calendars.in_force(keys)
        entries = {one["_id"]: self._entries(one, count, calendars, now) for one in sound}
        jobs = [entry.job_id for some in entries.values() for entry in some if entry.job_id is not None]
        states = await self._run_states(jobs, scope)
        return {one["_id"]: Recent(entries.get(one["_id"], []), states, malformed(one)) for one in found}

    async def _with_rows(self, ids: Sequence[str], count: int, scope: Scope, now: datetime) -> list[Document]:
        """Schedules, each with the newest rows of its ledger. One read for all of them: a read of each would cost a
        round trip per row of a list."""
        rows = [
            {"$match": {"until": {"$lte": now}, "at": {"$type": "date"}}},
            {"$sort": {"until": -1}},
            {"$limit": count},
        ]
        lookup = {"from": self._connection.ledger.name, "localField": "_id", "foreignField": "schedule_id"}
        wanted = {"_id": {"$in": list(ids)}, **reached(scope, "job.queue", "job.name")}
        return await self._connection.schedules.aggregate(
            [{"$match": wanted}, {"$lookup": {**lookup, "pipeline": rows, "as": "rows"}}], hint=BY_ID
        )

    def _entries(self, document: Document, count: int, calendars: CalendarsInForce, now: datetime) -> list[Entry]:
        keep, paused = self._connection.settings.keep_ledger, document.get("paused")
        start = _LONG_AGO if keep is None else now - timedelta(seconds=keep)
        book = Book(
            eras_of(document, calendars),
            readable(document["rows"], LEDGER_ROW, decode_row),
            document["cursor"],
            None if paused is None else paused["at"],
            now,
        )
        return recent(book, count, start)

    # -- what is to come -------------------------------------------------------------------------------------------

    async def window(self, after: str | None) -> list[Document]:
        """The next schedules behind an id, in the order of ids, with what their coming firings depend on."""
        behind = {"_id": {"$gt": after or ""}}
        return await self._connection.schedules.find_all(behind, _TIMING, sort=[("_id", 1)], hint=BY_ID, limit=WINDOW)


def _listed(document: Document) -> Listed:
    job = document.get("job") or {}
    return Listed(
        str(document["_id"]),
        job.get("name") or "",
        job.get("queue") or "",
        tuple(job.get("tags") or ()),
        _state(document),
    )


def _state(document: Document) -> str:
    """The state of a schedule of which only the compared fields were read."""
    if document.get("paused") is not None:
        return PAUSED
    rule = document.get("rule")
    waits = isinstance(rule, Mapping) and rule.get("after") == "end" and bool(document.get("live"))
    return ACTIVE if waits or document.get("next_at") is not None else ENDED


def _place(order: str, document: Document) -> Place:
    return Place(document["_id"], document["fire_at"] if order == BY_NEXT else None)


def _last_job(document: Document) -> str | None:
    last = document.get("last")
    job = last.get("job") if isinstance(last, Mapping) else None
    return job if isinstance(job, str) else None
