"""Changes as server-sent events, resumable after the last one received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse

from mainspring.api.dependencies import Caller, Viewer
from mainspring.api.jobs.sealed_cursors import Sealing
from mainspring.api.middleware.authentication import Lapse
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Span, span_seconds
from mainspring.api.wire.views.events import Digest
from mainspring.api.wire.views.observability import Event
from mainspring.clock import monotonic
from mainspring.engine.service import cancel_task
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import JobState
from mainspring.model.views.changes import BEAT, GAP, Change, check_place

router = APIRouter(tags=["events"])

BEAT_EVERY = 15.0
_SEND_TIMEOUT = 30.0
_END = "end"
"""The type of the last event of a stream whose caller is no longer valid."""
_LONGEST_PLACE = 4000
_PLACE = "place"
_SHORTEST, _LONGEST, _SOON = 0.1, 60.0, 0.1
T = TypeVar("T")
Word = Annotated[str | None, Query(min_length=1, max_length=200)]
Place = Annotated[str | None, Header(alias="Last-Event-ID", max_length=_LONGEST_PLACE)]
After = Annotated[str | None, Query(max_length=_LONGEST_PLACE, description="The same as the header Last-Event-ID.")]
Every = Annotated[Span | None, Query(description="Send digests, at most one in this time.", examples=["1s"])]
_EXAMPLE = (
    "id: hZ3kq0b1Xw8…\nevent: job\n"
    'data: {"at":"2026-12-24T18:00:00.000Z","change":"completed","id":"507f1f77bcf86cd799439011","name":"send",'
    '"queue":"default","state":"completed"}\n\n'
)
_ANSWERS: dict[int | str, Fields] = {
    200: {
        "description": "Events, for as long as the connection is open.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    429: {"description": "Too many streams of this key, from this address or in this process are open."},
    501: {"description": "This MongoDB server is a standalone one and has no change streams."},
}


@router.get("/api/events", summary="Stream changes", response_class=EventSourceResponse, responses=_ANSWERS)
async def stream_events(
    caller: Viewer,
    name: Word = None,
    queue: Word = None,
    id: Word = None,
    flow_id: Annotated[str | None, Query(alias="flowId", min_length=1, max_length=1000)] = None,
    state: Annotated[JobState | None, Query()] = None,
    after: After = None,
    digest: Every = None,
    last_event_id: Place = None,
) -> EventSourceResponse:
    """Stream server-sent events of the types `job` (created, started, progress, suspended, completed, failed, retried,
    released, requeued, cancelled, expired), `schedule` (created, changed, deleted) and `control` (set, removed).

    A client that reconnects with `Last-Event-ID`, as browsers do by themselves, misses no event and gets none twice. If
    that event is too old, an event `gap` says so, and the stream continues from now. A client that reads too slowly
    gets a `gap` as the last event, and continues by reconnecting. When the key is revoked, rotated, changed or expired,
    or the session is closed, the last event is `end`; its `reason` says why. The service sends a comment every 15
    seconds. With `digest`, the stream has `digest` events instead of single changes, at most one in that time: they
    count the changes and list what has changed, for pages that reload it. Filters match exactly. `id` selects a job, or
    a schedule and its jobs; `flowId` selects a flow and its jobs."""
    if flow_id is not None:
        await caller.scheduler.flows.get(flow_id, scope=caller.scope)
    sealing = await caller.service.sealing()
    changes = caller.scheduler.monitor.follow(
        name=name,
        queue=queue,
        id=id,
        flow_id=flow_id,
        state=state,
        after=_open_place(sealing, last_event_id or after),
        beat=BEAT_EVERY,
        scope=caller.principal.scope,
    )
    first = await anext(changes)  # an error here is answered as a problem, before the stream begins
    told = changes if digest is None else _digested(changes, _seconds(digest))
    return EventSourceResponse(_told(caller, sealing, first, told), ping=0, send_timeout=_SEND_TIMEOUT)


async def _told(
    caller: Caller, sealing: Sealing, first: Change, changes: AsyncIterator[Change | Digest]
) -> AsyncIterator[ServerSentEvent]:
    """Yield changes as events until the client disconnects, its key or session ends, the server stops or no more
    changes follow."""
    service = caller.service
    closing = asyncio.ensure_future(service.closing.wait())
    upcoming: asyncio.Future[Change | Digest | None] | None = None
    change: Change | Digest | None = first
    with service.standing.stay(caller.principal) as stay:
        try:
            while change is not None:
                yield _event(sealing, change)
                upcoming = asyncio.ensure_future(_next(changes))
                await stay.first(upcoming, closing)
                await stay.until_sure(closing)
                if stay.over.done():
                    yield _last(stay.over.result(), service.now())
                    return
                change = upcoming.result() if upcoming.done() and stay.sure else None
        finally:
            closing.cancel()
            await _end(changes, upcoming)


def _last(lapse: Lapse, now: datetime) -> ServerSentEvent:
    """The last event of a stream whose caller is no longer valid."""
    ended = Event(at=now, reason=lapse.name.lower(), detail=lapse.value)
    return ServerSentEvent(ended.as_json(), event=_END)


async def _next(changes: AsyncIterator[T]) -> T | None:
    return await anext(changes, None)


async def _digested(changes: AsyncIterator[Change], every: float) -> AsyncIterator[Change | Digest]:
    """Yield digests of changes: the first soon after a quiet time, further ones `every` seconds apart. A beat or a gap
    follows the digest of the changes before it at once."""
    gathered, sent_at = _Gathered(), float("-inf")
    reading = asyncio.ensure_future(gathered.read(changes))
    try:
        over = False
        while not over:
            await gathered.news.wait()
            due = max(gathered.began + min(every, _SOON), sent_at + every)
            if gathered.digest is not None and due > monotonic():
                await asyncio.wait({gathered.until_urgent()}, timeout=due - monotonic())
            over = gathered.over
            digest, others = gathered.take()
            if digest is not None:
                yield digest
                sent_at = monotonic()
            for change in others:
                yield change
        await reading
    finally:
        await gathered.close()
        await _end(changes, reading)


class _Gathered:
    """The changes since the last digest. They are read as they come, by one task and not by a task for each: at ten
    thousand changes a second, a reader that is slower than the feed would be dropped by it."""

    def __init__(self) -> None:
        self.digest: Digest | None = None
        self.began = 0.0
        """When the first change of the digest was read."""
        self.news = asyncio.Event()
        self.over = False
        self._others: list[Change] = []
        self._urgent = asyncio.Event()
        self._waiting: asyncio.Future[Any] | None = None

    async def read(self, changes: AsyncIterator[Change]) -> None:
        """Gather changes until there are no more."""
        try:
            async for change in changes:
                self._add(change)
        finally:
            self.over = True
            self._urgent.set()
            self.news.set()

    def take(self) -> tuple[Digest | None, list[Change]]:
        """Return what was gathered, and begin anew."""
        digest, others = self.digest, self._others
        self.digest, self._others = None, []
        if not self.over:
            self.news.clear()
            self._urgent.clear()
        return digest, others

    def until_urgent(self) -> asyncio.Future[Any]:
        """Done when something does not wait until the next digest is due."""
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.ensure_future(self._urgent.wait())
        return self._waiting

    async def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait({self._waiting})

    def _add(self, change: Change) -> None:
        if change.type in (GAP, BEAT):
            # Of several beats that a slow client has not been sent, the last one is enough.
            self._others = [*(one for one in self._others if one.type != BEAT), change]
            self._urgent.set()
        else:
            if self.digest is None:
                self.digest, self.began = Digest(change.at), monotonic()
            self.digest.add(change)
        self.news.set()


def _seconds(digest: str) -> float:
    seconds = span_seconds(digest)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise Problem(422, f"digest must be from {_SHORTEST:g}s to {_LONGEST:g}s.", field="digest")
    return seconds


async def _end(changes: Any, upcoming: asyncio.Future[Any] | None) -> None:
    if upcoming is not None and not upcoming.done():
        await cancel_task(upcoming)
    await changes.aclose()


def _event(sealing: Sealing, change: Change | Digest) -> ServerSentEvent:
    # Sealed, since the resume token of the database names the document that was changed last, in reach or not.
    found = change.place if isinstance(change, Digest) else change.id
    place = None if found is None else sealing.seal(_PLACE, bytes.fromhex(found))
    if isinstance(change, Digest):
        return ServerSentEvent(change.out().as_json(), event="digest", id=place)
    if change.type == BEAT:
        # A comment is no event, but the client keeps its id and so reconnects from a recent place.
        return ServerSentEvent(comment="beat", id=place)
    return ServerSentEvent(Event.of(change).as_json(), event=change.type, id=place)


def _open_place(sealing: Sealing, text: str | None) -> str | None:
    if text is None:
        return None
    place = sealing.open(_PLACE, text)
    return check_place(None if place is None else place.hex().upper())
