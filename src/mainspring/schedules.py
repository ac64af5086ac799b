"""The verbs for schedules, and a stored schedule as a thing one can manage.

`ScheduleVerbs` is the part of the Scheduler that deals with schedules, each verb by the schedule's id; a `Schedule` is
a snapshot of one, with the same verbs on it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from mainspring.clock import truncate
from mainspring.config import check_actor, check_name, check_reason
from mainspring.engine.timekeeper import announce_fired
from mainspring.errors import CalendarNotFound, ConfigurationError, InvalidJob, InvalidSchedule
from mainspring.handlers import check_data, stored_version
from mainspring.model.calendar import Calendar
from mainspring.model.draft import check_attempts, check_instant, check_job_id, make_draft
from mainspring.model.job import Job
from mainspring.model.ledger import Entry
from mainspring.model.plan import OVERLAPS
from mainspring.model.retry import Retry, Seconds
from mainspring.model.rules import Rule, rule_from_document
from mainspring.model.rules.rule import anchored
from mainspring.model.schedule import (
    SCHEDULE_STATES,
    Firing,
    ScheduleFacts,
    ScheduleOptions,
    Spec,
    check_removed,
    make_spec,
)
from mainspring.model.sealing import encrypt_like
from mainspring.model.times import Times, is_after_end
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.ledger import NOT_RUN, WHICH, Backfill, decode_backfill
from mainspring.store.schedule_codec import decode_schedule, draft_of, options_of
from mainspring.store.schedules import Changed
from mainspring.verbs import Verbs

_PREVIEWED_AT_MOST = 10_000
_LEDGER_AT_MOST = 10_000
_BACKFILLED_AT_MOST = 10_000
_LONGEST_NAME = 150


@dataclass(frozen=True)
class Schedule(ScheduleFacts):
    """A stored schedule, as it was when it was read, and the verbs to manage it."""

    _verbs: ScheduleVerbs | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _face(self) -> ScheduleVerbs:
        if self._verbs is None:
            raise ConfigurationError("This schedule was not read from a Scheduler, so that it cannot be managed.")
        return self._verbs

    async def refresh(self) -> Schedule:
        """The schedule as it is now."""
        return await self._face().get_schedule(self.id)

    async def pause(self, reason: str = "", *, actor: str | None = None) -> Schedule:
        """Let it fire no more until it is resumed."""
        return await self._face().pause_schedule(self.id, reason, actor=actor)

    async def resume(self) -> Schedule:
        """Let it fire again, from now on."""
        return await self._face().resume_schedule(self.id)

    async def trigger(
        self, *, overlap: str | None = None, reason: str = "", actor: str | None = None, job_id: str | None = None
    ) -> Job:
        """Make a job now, beside the firings."""
        return await self._face().trigger_schedule(self.id, overlap=overlap, reason=reason, actor=actor, job_id=job_id)

    async def skip_next(self, reason: str = "", *, actor: str | None = None, request_id: str | None = None) -> Schedule:
        """Let the next firing make no job."""
        return await self._face().skip_next(self.id, reason, actor=actor, request_id=request_id)

    async def edit(self, /, **changes: Any) -> Schedule:
        """Change it; takes what `Scheduler.edit_schedule` takes."""
        return await self._face().edit_schedule(self.id, **changes)

    async def delete(self) -> None:
        """Delete it, and its ledger. Its jobs stay."""
        await self._face().delete_schedule(self.id)

    async def ledger(self, start: datetime, end: datetime, *, limit: int = 1000) -> list[Entry]:
        """Every firing from `start` on and before `end`, and what became of it."""
        return await self._face().ledger(self.id, start, end, limit=limit)

    async def upcoming(self, count: int = 10) -> list[Firing]:
        """The next firings, each with what moved it."""
        return await self._face().upcoming(self.id, count)

    async def preview_backfill(self, start: datetime, end: datetime, *, which: str = NOT_RUN) -> list[Entry]:
        """The firings of a past window that `backfill` would make up for."""
        return await self._face().preview_backfill(self.id, start, end, which=which)

    async def backfill(self, /, start: datetime, end: datetime, **options: Any) -> Backfill:
        """Make up for the firings of a past window; takes what `Scheduler.backfill` takes."""
        return await self._face().backfill(self.id, start, end, **options)


class ScheduleVerbs(Verbs):
    """The part of the Scheduler that manages schedules."""

    def _schedules_changed(self) -> None:
        """This process has changed a schedule or made jobs of one."""

    # -- looking ---------------------------------------------------------------------------------------------------

    async def get_schedule(self, schedule_id: str) -> Schedule:
        """The schedule as it is stored now. Raises ScheduleNotFound."""
        return self._schedule(await (await self._store()).schedules.get(_id(schedule_id)))

    async def schedules(
        self, *, state: str | None = None, name: str | None = None, tag: str | None = None, after: str | None = None
    ) -> AsyncIterator[Schedule]:
        """Schedules that match, in the order of their ids; with `after`, those whose ids come behind this one."""
        if state is not None and state not in SCHEDULE_STATES:
            raise ConfigurationError(f"There is no state {state!r}; a schedule is {', '.join(SCHEDULE_STATES)}.")
        store = await self._store()
        async for document in store.schedules.find(name, tag, None if after is None else _id(after)):
            schedule = self._schedule(document)
            if state is None or schedule.state == state:
                yield schedule

    async def preview(
        self,
        rule: Rule,
        count: int = 10,
        *,
        start: datetime | None = None,
        schedule_id: str = "preview",
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        jitter: Seconds = 0.0,
    ) -> list[Firing]:
        """The next firings of a rule after `start` (now), with what moved each. Nothing is stored.

        `H` and jitter depend on the schedule's id: give the one that it will have.
        """
        store = await self._store()
        after = truncate(store.clock.now() if start is None else _instant(start, "start"))
        options = {"start_at": start_at, "end_at": end_at, "jitter": jitter}
        spec = make_spec(schedule_id, make_draft("preview", None), rule, options)
        rule = anchored(spec.rule, spec.start_at or after)
        calendars = {name: await self._calendar_of(store, name) for name in rule.calendars}
        times = Times(spec.id, rule.bind(spec.id, calendars), spec.start_at, spec.end_at, spec.jitter)
        return _firings(times, after, count)

    async def upcoming(self, schedule_id: str, count: int = 10) -> list[Firing]:
        """The next firings of a stored schedule, whether or not it is paused, each with what moved it."""
        _check_count(count, "count", _PREVIEWED_AT_MOST, least=0)
        store = await self._store()
        document = await store.schedules.get(_id(schedule_id))
        times = await store.schedules.times(document)
        limit, now = document.get("max_runs"), truncate(store.clock.now())
        left = count if limit is None else min(count, max(0, limit - document.get("runs", 0)))
        waits = document.get("due_at") is not None and document["due_at"] > now  # maybe for nothing but its jitter
        return _firings(times, document["cursor"] if waits else max(document["cursor"], now), left)

    async def ledger(self, schedule_id: str, start: datetime, end: datetime, *, limit: int = 1000) -> list[Entry]:
        """Every firing from `start` on and before `end`, and what became of it; at most `limit`, the first ones."""
        _check_count(limit, "limit", _LEDGER_AT_MOST)
        store = await self._store()
        document = await store.schedules.get(_id(schedule_id))
        return await store.ledger.entries(document, _instant(start, "start"), _instant(end, "end"), limit)

    # -- changing --------------------------------------------------------------------------------------------------

    async def pause_schedule(self, schedule_id: str, reason: str = "", *, actor: str | None = None) -> Schedule:
        """Let a schedule fire no more until it is resumed. Runs that are going on are not touched."""
        store = await self._store()
        changed = await store.schedules.pause(_id(schedule_id), check_reason(reason), check_actor(actor))
        schedule = self._changed(changed)
        if changed.changed:
            self._events.emit("schedule:pause", Schedule(**decode_schedule(changed.document), _verbs=self))
        return schedule

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        """Let a schedule fire again, from now on. What it has not fired meanwhile, `backfill` can make up for."""
        store = await self._store()
        return self._changed(await store.schedules.resume(_id(schedule_id)))

    async def skip_next(
        self, schedule_id: str, reason: str = "", *, actor: str | None = None, request_id: str | None = None
    ) -> Schedule:
        """Let the next firing of a schedule make no job. Called again, it skips the one after that too; but not with
        the same `request_id`, a text of your choice."""
        store = await self._store()
        request = None if request_id is None else check_name(request_id, "request_id")
        return self._changed(
            await store.schedules.skip_next(_id(schedule_id), check_reason(reason), check_actor(actor), request)
        )

    async def trigger_schedule(
        self,
        schedule_id: str,
        *,
        overlap: str | None = None,
        reason: str = "",
        actor: str | None = None,
        job_id: str | None = None,
    ) -> Job:
        """Make a job of a schedule now, beside its firings, also while it is paused.

        Its overlap policy counts, unless another is given here. Where that is "skip" and a run is still going, this
        raises ScheduleStateError. `job_id` is how the job's id is to end, behind the schedule's id and a "!": 24
        hexadecimal digits. Called again with the same, this returns the job that it has made.
        """
        if overlap is not None and overlap not in OVERLAPS:
            raise InvalidSchedule(f"overlap must be one of {', '.join(OVERLAPS)}, not {overlap!r}.")
        store = await self._store()
        changed, job_id = await store.schedules.trigger(
            _id(schedule_id),
            overlap,
            check_reason(reason),
            check_actor(actor),
            None if job_id is None else check_job_id(job_id),
        )
        self._changed(changed)
        return store.sealer.decode(await store.jobs.get(job_id))

    async def edit_schedule(
        self,
        schedule_id: str,
        *,
        repeat: Rule | None = None,
        data: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        timeout: Seconds | None = None,
        retry: Retry | int | None = None,
        executes: str | None = None,
        start_within: Seconds | None = None,
        remove: Sequence[str] = (),
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Change a schedule; what is not given stays as it is. A new rule counts from now on.

        `remove` names options that it is to have no longer, such as ["end_at", "max_runs"].
        """
        check_removed(remove)
        if options.get("paused") is not None:
            raise InvalidSchedule("paused is for a new schedule; use pause_schedule() and resume_schedule().")
        store = await self._store()
        given = {"queue": queue, "priority": priority, "tags": tags, "timeout": timeout, "retry": retry}
        given |= {"executes": executes, "start_within": start_within}

        changed: dict[str, Any] = {key: value for key, value in options.items() if value is not None}

        def respec(document: Document) -> Spec:
            return self._respec(document, repeat, data, given, changed | dict.fromkeys(remove))

        return self._changed(await store.schedules.edit(_id(schedule_id), respec))

    async def delete_schedule(self, schedule_id: str) -> None:
        """Delete a schedule and its ledger. Its jobs stay."""
        await (await self._store()).schedules.delete(_id(schedule_id))
        self._schedules_changed()

    # -- making up for the past ------------------------------------------------------------------------------------

    async def preview_backfill(
        self, schedule_id: str, start: datetime, end: datetime, *, which: str = NOT_RUN, limit: int = 1000
    ) -> list[Entry]:
        """The firings of a past window that `backfill` would make up for; at most `limit`, the first ones."""
        _check_count(limit, "limit", _BACKFILLED_AT_MOST)
        store = await self._store()
        document = await store.schedules.get(_id(schedule_id))
        start, end = self._window(store, start, end, which)
        return (await self._to_backfill(store, document, start, end, which, limit))[:limit]

    async def backfill(
        self,
        schedule_id: str,
        start: datetime,
        end: datetime,
        *,
        which: str = NOT_RUN,
        limit: int = 1000,
        actor: str | None = None,
        backfill_id: str | None = None,
    ) -> Backfill:
        """Make the jobs of a past window's firings: of those that were missed or skipped, or of all.

        A window with more than `limit` firings is refused before anything is made. When it is interrupted, call it
        again with the same window: it goes on where it was left and makes nothing twice. One that is done does nothing
        more; give it another `backfill_id` to do it all over.
        """
        _check_count(limit, "limit", _BACKFILLED_AT_MOST)
        store = await self._store()
        document = await store.schedules.get(_id(schedule_id))
        start, end = self._window(store, start, end, which)
        if len(await self._to_backfill(store, document, start, end, which, limit + 1)) > limit:
            raise InvalidSchedule(
                f"This window has more than {limit:,} firings to make up for; "
                f"take a smaller window, or raise limit (at most {_BACKFILLED_AT_MOST:,})."
            )
        key = None if backfill_id is None else check_name(backfill_id, "backfill_id")
        progress = await store.ledger.open_backfill(document["_id"], start, end, which, check_actor(actor), key)
        if not progress.get("done"):
            past = min(end, truncate(store.clock.now()))
            async for batch in store.ledger.to_backfill(document, progress["cursor"], past, which):
                await store.ledger.backfill_batch(document, progress, batch)
                self._schedules_changed()
            progress = await store.ledger.end_backfill(progress)
        return decode_backfill(progress)

    async def _to_backfill(
        self, store: Store, document: Document, start: datetime, end: datetime, which: str, enough: int
    ) -> list[Entry]:
        found: list[Entry] = []
        past = min(end, truncate(store.clock.now()))
        async for batch in store.ledger.to_backfill(document, start, past, which):
            found += batch
            if len(found) >= enough:
                break
        return found

    def _window(self, store: Store, start: datetime, end: datetime, which: str) -> tuple[datetime, datetime]:
        if which not in WHICH:
            raise InvalidSchedule(f"which must be one of {', '.join(WHICH)}, not {which!r}.")
        start, end = truncate(_instant(start, "start")), truncate(_instant(end, "end"))
        if end <= start:
            raise InvalidSchedule(f"The window ends ({end.isoformat()}) before it begins ({start.isoformat()}).")
        if start > store.clock.now():
            raise InvalidSchedule("A backfill is about the past, and this window begins in the future.")
        return start, end

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _put_schedule(self, spec: Spec, app: str | None = None) -> Schedule:
        return self._changed(await (await self._store()).schedules.put(spec, app=app))

    def _changed(self, changed: Changed) -> Schedule:
        announce_fired(self._events, changed.fired)
        if changed.changed or changed.fired:
            self._schedules_changed()
        return self._schedule(changed.document)

    def _schedule(self, document: Document) -> Schedule:
        facts = decode_schedule(document)
        if document["job"].get("sealed"):
            facts |= {"kept": facts["data"], "data": self._secrecy.sealer.open_template(document)}
        return Schedule(**facts, _verbs=self)

    def _respec(
        self,
        document: Document,
        repeat: Rule | None,
        data: Mapping[str, Any] | None,
        given: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> Spec:
        """What a stored schedule is to be after an edit."""
        draft = draft_of(document)
        chosen = {key: value for key, value in given.items() if value is not None}
        fresh = make_draft(draft.name, data, **chosen)
        draft = replace(draft, **{key: getattr(fresh, key) for key in chosen})
        check_attempts(draft)
        if data is not None:
            handler = self._handlers.own(draft.name)
            check_data(handler, data)
            draft = replace(draft, data=data, data_v=draft.data_v if handler is None else stored_version(handler))
            draft.encrypt = self._secrecy.encrypt(draft.name, encrypt_like(document["job"].get("data")))
        kept = {**options_of(document), **options}
        return make_spec(document["_id"], draft, repeat or rule_from_document(document["rule"]), kept)

    async def _calendar_of(self, store: Store, name: str) -> Calendar:
        found = await store.calendars.get(name)
        if found is None:
            raise CalendarNotFound(name)
        return found.calendar


def new_schedule_id(name: str) -> str:
    """An id for a schedule that nobody gave one."""
    return f"{name[:_LONGEST_NAME]}-{secrets.token_hex(4)}"


def _firings(times: Times, after: datetime, count: int) -> list[Firing]:
    _check_count(count, "count", _PREVIEWED_AT_MOST, least=0)
    found: list[Firing] = []
    while len(found) < count and (at := times.next(after)) is not None:
        found.append(_firing(times, at))
        after = at
    return found


def _firing(times: Times, at: datetime) -> Firing:
    shown = at if is_after_end(times.rule) else times.rule.next(at - timedelta(milliseconds=1)) or at  # in its zone
    due, notes = times.due(at), times.rule.notes(at)
    if due != at:
        notes = (*notes, f"jitter moves it by {(due - at).total_seconds():.3f} s")
    return Firing(shown, due.astimezone(shown.tzinfo), notes)


def _id(schedule_id: object) -> str:
    if not isinstance(schedule_id, str) or not schedule_id:
        raise ConfigurationError(f"A schedule's id is a non-empty text, not {schedule_id!r}.")
    return schedule_id


def _instant(value: datetime, name: str) -> datetime:
    try:
        return check_instant(value, name).astimezone(UTC)
    except InvalidJob as error:
        raise InvalidSchedule(str(error)) from None


def _check_count(value: object, name: str, most: int, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"{name} must be a whole number from {least} to {most:,}, not {value!r}.")
