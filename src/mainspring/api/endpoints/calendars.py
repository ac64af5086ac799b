"""Calendars: named sets of days that schedules leave out, given as JSON or as an .ics file.

A key with a scope reaches the calendars of its namespace (`model/access/namespaces.py`), such as `billing:holidays` for
a key of the queue billing. Other calendars do not exist for it, neither here nor in the rules of its schedules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.endpoints import ICS
from mainspring.api.jobs.resources import signed
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, ListAnswer
from mainspring.api.wire.schedules import CalendarIn, CalendarOut
from mainspring.errors import CalendarNotFound, ScheduleStateError
from mainspring.model.access.namespaces import example_name, has_name
from mainspring.model.fields import Fields
from mainspring.store.schedules.calendars import StoredCalendar

router = APIRouter(prefix="/api/calendars", tags=["calendars"])
Name = Annotated[str, Path(min_length=1, max_length=200, examples=["holidays"])]
Zone = Annotated[
    str | None,
    Query(
        min_length=1, max_length=200, description="Of an .ics file: the zone whose days count, instead of each event's."
    ),
]
MOST_ICS = 256 * 1024
"""The largest .ics file over HTTP, in bytes: reading one takes time in proportion, and a few hundred events suffice."""
_EXAMPLE = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20301224\nSUMMARY:Closed\nEND:VEVENT\nEND:VCALENDAR\n"


class _IcsRoute(APIRoute):
    """Matches requests whose body is an .ics file. The others go to the route of the same path that takes JSON."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        kind = Headers(scope=scope).get("content-type", "") if scope["type"] == "http" else ""
        return super().matches(scope) if kind.partition(";")[0].strip().lower() == ICS else (Match.NONE, {})


files = APIRouter(prefix="/api/calendars", tags=["calendars"], route_class=_IcsRoute)
"""Comes before `router`. The specification describes both as one operation, since they share path and method."""


@router.get("", summary="List calendars")
async def list_calendars(caller: Viewer) -> ListAnswer[CalendarOut]:
    """List all calendars in the order of their names."""
    found = await caller.scheduler.calendars.all()
    reached = [one for one in found if has_name(caller.scope, one.name)]
    shown = [CalendarOut.of(one) for one in await signed(caller, reached)]
    return ListAnswer.of(found, shown, everything=caller.scope.everything)


@router.get("/{name:path}", summary="Get a calendar")
async def get_calendar(name: Name, caller: Viewer) -> Answer[CalendarOut]:
    """Return the calendar that is stored under a name."""
    return await _answer(caller, await _reached(caller, name))


@router.put(
    "/{name:path}",
    summary="Store a calendar",
    openapi_extra={"requestBody": {"content": {ICS: {"schema": {"type": "string"}, "example": _EXAMPLE}}}},
)
async def put_calendar(name: Name, body: CalendarIn, caller: Operator) -> Answer[CalendarOut]:
    """Store a calendar under a name, or replace the calendar of that name. Schedules that refer to it use it at once.
    The body is JSON, or an .ics file of at most 256 KiB (`text/calendar`), whose events give the days. For an .ics
    file, `?timezone=` sets one zone for all events."""
    calendar = body.calendar()
    return await _put(caller, name, lambda: caller.scheduler.calendars.put(name, calendar, actor=caller.actor))


@files.put("/{name:path}", include_in_schema=False)
async def put_file(name: Name, request: Request, caller: Operator, timezone: Zone = None) -> Answer[CalendarOut]:
    """Store the days of the events in an .ics file."""
    ics = await request.body()
    if len(ics) > MOST_ICS:
        raise Problem(413, f"The .ics file is larger than {MOST_ICS:,} bytes; split it into several calendars.")
    calendars = caller.scheduler.calendars
    return await _put(caller, name, lambda: calendars.import_ics(name, ics, timezone=timezone, actor=caller.actor))


async def _put(caller: Caller, name: str, put: Callable[[], Awaitable[StoredCalendar]]) -> Answer[CalendarOut]:
    """Store a calendar by `put`, if the caller may use this name."""
    if not has_name(caller.scope, name):
        example = example_name(caller.scope)
        raise Problem(422, f"Calendars of this key have names such as {example}; choose one of these.", field="name")
    before = await _known(caller, name)
    after = await put()
    await caller.note("calendar.put", name, before=_told(before), after=_told(after))
    return await _answer(caller, after)


@router.delete("/{name:path}", summary="Delete a calendar")
async def delete_calendar(name: Name, caller: Operator) -> Answer[CalendarOut]:
    """Delete a calendar and return it. While a schedule refers to it, the answer is 409."""
    before = await _reached(caller, name)
    try:
        await caller.scheduler.calendars.delete(name)
    except ScheduleStateError:
        if caller.scope.everything:
            raise
        # The answer does not name the schedules: some may be out of the caller's reach.
        raise Problem(409, "Schedules need this calendar; edit or delete these first.") from None
    await caller.note("calendar.delete", name, before=_told(before))
    return await _answer(caller, before)


async def _reached(caller: Caller, name: str) -> StoredCalendar:
    """A calendar within the caller's reach. The error for any other is the same as for one that does not exist."""
    if not has_name(caller.scope, name):
        raise CalendarNotFound(name)
    return await caller.scheduler.calendars.get(name)


async def _known(caller: Caller, name: str) -> StoredCalendar | None:
    try:
        return await _reached(caller, name)
    except CalendarNotFound:
        return None


async def _answer(caller: Caller, stored: StoredCalendar) -> Answer[CalendarOut]:
    (seen,) = await signed(caller, [stored])
    return Answer(data=CalendarOut.of(seen))


def _told(stored: StoredCalendar | None) -> Fields | None:
    return None if stored is None else {"rev": stored.rev, **stored.calendar.to_document()}
