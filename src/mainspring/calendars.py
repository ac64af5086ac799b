"""The verbs for calendars: named sets of days, stored once, that schedules make exceptions for."""

from __future__ import annotations

import asyncio

from mainspring.config import check_actor, check_name
from mainspring.engine.timekeeper import announce_fired
from mainspring.errors import CalendarNotFound, InvalidSchedule, ScheduleStateError
from mainspring.model.calendar import Calendar
from mainspring.schedules import ScheduleVerbs
from mainspring.store.calendars import StoredCalendar


class CalendarVerbs(ScheduleVerbs):
    """The part of the Scheduler that manages calendars."""

    async def put_calendar(self, name: str, calendar: Calendar, *, actor: str | None = None) -> StoredCalendar:
        """Store a calendar under a name, or replace the one there. Schedules that need it follow at once."""
        if not isinstance(calendar, Calendar):
            raise InvalidSchedule(f'calendar must be a Calendar, such as Calendar(["2030-12-24"]), not {calendar!r}.')
        name = _name(name)
        store = await self._store()
        stored, changed = await store.calendars.put(name, calendar, check_actor(actor))
        # Also when nothing has changed: whoever stored it may have died before all schedules followed.
        fired = await store.schedules.calendar_changed(name, stored.rev)
        announce_fired(self._events, fired)
        if changed or fired:
            self._schedules_changed()
        return stored

    async def import_calendar(
        self, name: str, ics: str | bytes, *, timezone: str | None = None, actor: str | None = None
    ) -> StoredCalendar:
        """Store the days of the events in an .ics file under a name. Needs the extra `calendars`.

        With `timezone`, events with a time are on the days that they have there; see `Calendar.from_ics`.
        """
        today = (await self._store()).clock.now().date()
        # Reading a large file takes a while, in which the event loop has better things to do.
        calendar = await asyncio.to_thread(Calendar.from_ics, ics, since=today, timezone=timezone)
        return await self.put_calendar(name, calendar, actor=actor)

    async def get_calendar(self, name: str) -> StoredCalendar:
        """The calendar that is stored under a name. Raises CalendarNotFound."""
        found = await (await self._store()).calendars.get(_name(name))
        if found is None:
            raise CalendarNotFound(name)
        return found

    async def calendars(self) -> list[StoredCalendar]:
        """All calendars, in the order of their names."""
        return await (await self._store()).calendars.find()

    async def delete_calendar(self, name: str) -> None:
        """Delete a calendar. Refused while a schedule needs it."""
        store = await self._store()
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
