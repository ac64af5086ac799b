"""`scheduler.calendars`: stored named sets of days that schedules leave out."""

from __future__ import annotations

import asyncio

from mainspring.client.core import Core
from mainspring.config.settings import check_actor, check_name
from mainspring.engine.services.timekeeper import announce_fired
from mainspring.errors import CalendarNotFound, InvalidSchedule, ScheduleStateError
from mainspring.model.unreadable import Listed
from mainspring.rules.calendars.calendar import Calendar
from mainspring.spelling import spelled_verbs
from mainspring.store.schedules.calendars import StoredCalendar


@spelled_verbs
class Calendars:
    """The verbs for calendars."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def put(self, name: str, calendar: Calendar, *, actor: str | None = None) -> StoredCalendar:
        """Store a calendar under a name, or replace the calendar of that name. Schedules that refer to it use it at
        once."""
        if not isinstance(calendar, Calendar):
            raise InvalidSchedule(f'calendar must be a Calendar, such as Calendar(["2030-12-24"]), not {calendar!r}.')
        name = _name(name)
        store = await self._core.store()
        stored, changed = await store.calendars.put(name, calendar, check_actor(actor))
        # Also if nothing has changed: the process that stored it may have died before all schedules followed.
        fired = await store.schedules.calendar_changed(name, stored.rev)
        announce_fired(self._core.events, fired)
        if changed or fired:
            self._core.worker.schedules_changed()
        return stored

    async def import_ics(
        self, name: str, ics: str | bytes, *, timezone: str | None = None, actor: str | None = None
    ) -> StoredCalendar:
        """Store the days of the events in an .ics file as a calendar. Needs the extra `calendars`.

        With `timezone`, events with a time count on their day in this zone; see `Calendar.from_ics`.
        """
        today = (await self._core.store()).clock.now().date()
        # In a thread, since reading a large file would block the event loop for a while.
        calendar = await asyncio.to_thread(Calendar.from_ics, ics, since=today, timezone=timezone)
        return await self.put(name, calendar, actor=actor)

    async def get(self, name: str) -> StoredCalendar:
        """Return the calendar that is stored under a name. Raise CalendarNotFound."""
        found = await (await self._core.store()).calendars.get(_name(name))
        if found is None:
            raise CalendarNotFound(name)
        return found

    async def all(self) -> Listed[StoredCalendar]:
        """List all calendars in the order of their names. `unreadable` of the list names documents that cannot be
        read."""
        return await (await self._core.store()).calendars.find()

    async def delete(self, name: str) -> None:
        """Delete a calendar. Raise ScheduleStateError while a schedule refers to it."""
        store = await self._core.store()
        users = await store.schedules.using_calendar(_name(name))
        if users:
            shown = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
            raise ScheduleStateError(f"Calendar {name!r} is needed by {shown}; edit or delete these schedules first.")
        await store.calendars.delete(name)


def _name(value: object) -> str:
    name = check_name(value, "a calendar's name")
    if "@" in name:
        raise InvalidSchedule(f"A calendar's name has no @ in it: {name!r}.")
    return name
