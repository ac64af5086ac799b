"""Calendars: named sets of days that schedules make exceptions for. They are everybody's."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from mainspring.api.service import Caller, Operator, Viewer
from mainspring.api.wire.base import Answer
from mainspring.api.wire.schedules import CalendarIn, CalendarOut
from mainspring.errors import CalendarNotFound
from mainspring.store.calendars import StoredCalendar

router = APIRouter(prefix="/api/calendars", tags=["calendars"])
Name = Annotated[str, Path(min_length=1, max_length=200, examples=["holidays"])]


@router.get("", summary="List calendars")
async def list_calendars(caller: Viewer) -> Answer[list[CalendarOut]]:
    """All calendars, in the order of their names."""
    caller.check_everything()
    return Answer(data=[CalendarOut.of(one) for one in await caller.scheduler.calendars()])


@router.get("/{name:path}", summary="A calendar")
async def get_calendar(name: Name, caller: Viewer) -> Answer[CalendarOut]:
    """The calendar that is stored under a name."""
    caller.check_everything()
    return Answer(data=CalendarOut.of(await caller.scheduler.get_calendar(name)))


@router.put("/{name:path}", summary="Store a calendar")
async def put_calendar(name: Name, body: CalendarIn, caller: Operator) -> Answer[CalendarOut]:
    """Store a calendar under a name, or replace the one there. Schedules that need it follow at once."""
    caller.check_everything()
    before = await _known(caller, name)
    after = await caller.scheduler.put_calendar(name, body.calendar(), actor=caller.actor)
    await caller.note("calendar.put", name, before=_told(before), after=_told(after))
    return Answer(data=CalendarOut.of(after))


@router.delete("/{name:path}", summary="Delete a calendar")
async def delete_calendar(name: Name, caller: Operator) -> Answer[CalendarOut]:
    """Delete a calendar. While a schedule needs it, this is a 409. The answer is what it was."""
    caller.check_everything()
    before = await caller.scheduler.get_calendar(name)
    await caller.scheduler.delete_calendar(name)
    await caller.note("calendar.delete", name, before=_told(before))
    return Answer(data=CalendarOut.of(before))


async def _known(caller: Caller, name: str) -> StoredCalendar | None:
    try:
        return await caller.scheduler.get_calendar(name)
    except CalendarNotFound:
        return None


def _told(stored: StoredCalendar | None) -> dict[str, Any] | None:
    return None if stored is None else {"rev": stored.rev, **stored.calendar.to_document()}
