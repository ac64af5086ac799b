"""What happens, as it happens: server-sent events that go on where they were left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse

from mainspring.api.problems import Problem
from mainspring.api.service import Service, Viewer
from mainspring.api.wire.observability import Event
from mainspring.model.changes import BEAT, Change

router = APIRouter(tags=["events"])

BEAT_EVERY = 15.0
MOST_STREAMS = 100
"""How many streams one process keeps open."""
_SEND_TIMEOUT = 30.0
_COME_BACK = 5
_LONGEST_PLACE = 2000
Word = Annotated[str | None, Query(min_length=1, max_length=200)]
Place = Annotated[str | None, Header(alias="Last-Event-ID", max_length=_LONGEST_PLACE)]
After = Annotated[str | None, Query(max_length=_LONGEST_PLACE, description="The same as the header Last-Event-ID.")]
_EXAMPLE = (
    "id: 826928A0B1000000012B\nevent: job\n"
    'data: {"at":"2026-12-24T18:00:00.000Z","change":"completed","id":"507f1f77bcf86cd799439011","name":"send",'
    '"queue":"default","state":"completed"}\n\n'
)
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, for as long as the connection is open.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    501: {"description": "This MongoDB server is a standalone one and has no change streams."},
}


@router.get("/api/events", summary="What happens, live", response_class=EventSourceResponse, responses=_ANSWERS)
async def events(
    caller: Viewer,
    name: Word = None,
    queue: Word = None,
    id: Word = None,
    state: Word = None,
    after: After = None,
    last_event_id: Place = None,
) -> EventSourceResponse:
    """Server-sent events of the types `job` (created, started, progress, completed, failed, retried, released,
    requeued, cancelled, expired), `schedule` (created, changed, deleted) and `control` (set, removed).

    A client that comes back with `Last-Event-ID`, as browsers do by themselves, misses nothing and gets nothing twice.
    Where that is too long ago, an event `gap` says so and the stream goes on from now; a client that reads too slowly
    gets a `gap` as the last event, and goes on by coming back. A comment comes every 15 seconds. Filters are exact;
    `id` is that of a job or a schedule, of which its jobs are told as well."""
    service = caller.service
    if service.streams >= MOST_STREAMS:
        soon = {"Retry-After": str(_COME_BACK)}
        raise Problem(429, f"{MOST_STREAMS} streams are open in this process already; close some.", headers=soon)
    changes = caller.scheduler.follow(
        name=name,
        queue=queue,
        id=id,
        state=state,
        after=last_event_id or after,
        beat=BEAT_EVERY,
        scope=caller.principal.scope,
    )
    first = await anext(changes)  # what is wrong is answered before the stream begins
    return EventSourceResponse(_told(service, first, changes), ping=0, send_timeout=_SEND_TIMEOUT)


async def _told(service: Service, first: Change, changes: AsyncIterator[Change]) -> AsyncIterator[ServerSentEvent]:
    """Changes as events, until the client goes, the server stops or there are no more."""
    closing = asyncio.ensure_future(service.closing.wait())
    upcoming: asyncio.Future[Change | None] | None = None
    change: Change | None = first
    service.streams += 1  # not before: a stream that never begins does not end either
    try:
        while change is not None:
            yield _event(change)
            upcoming = asyncio.ensure_future(_next(changes))
            await asyncio.wait({upcoming, closing}, return_when=asyncio.FIRST_COMPLETED)
            change = upcoming.result() if upcoming.done() else None
    finally:
        service.streams -= 1
        closing.cancel()
        await _end(changes, upcoming)


async def _next(changes: AsyncIterator[Change]) -> Change | None:
    return await anext(changes, None)


async def _end(changes: Any, upcoming: asyncio.Future[Change | None] | None) -> None:
    if upcoming is not None and not upcoming.done():
        upcoming.cancel()
        await asyncio.wait({upcoming})
    await changes.aclose()


def _event(change: Change) -> ServerSentEvent:
    if change.type == BEAT:
        # Without data it is no event, but the client keeps its id: it need not come back from long ago.
        return ServerSentEvent(comment="beat", id=change.id)
    return ServerSentEvent(Event.of(change).as_json(), event=change.type, id=change.id)
