"""`scheduler.schedules`: the verbs for stored schedules, and a stored schedule with the same verbs on it.

The verbs of `Schedules` take the schedule's id. A `Schedule` is a snapshot of one schedule; its verbs call those.
`StoredSchedules` stores specifications and makes a `Schedule` of a document, for the other parts of the Scheduler.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Unpack

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.client.views.schedule_times import (
    PREVIEWED_AT_MOST,
    calendar_of,
    edited_spec,
    firings,
    instant,
    to_backfill,
    window,
)
from mainspring.client.views.schedule_views import ScheduleViews
from mainspring.clock import truncate
from mainspring.config.checks import check_whole
from mainspring.config.settings import check_actor, check_name, check_reason
from mainspring.durations import Duration
from mainspring.engine.services.timekeeper import announce_fired
from mainspring.errors import ConfigurationError, InvalidSchedule
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.fields import Fields
from mainspring.model.jobs.draft import check_job_id, make_draft
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.options import TemplateChanges
from mainspring.model.jobs.retry import Seconds
from mainspring.model.schedules.coming import Coming
from mainspring.model.schedules.firing_plan import OVERLAPS, Overlap
from mainspring.model.schedules.ledger import Entry, RecentFiring
from mainspring.model.schedules.schedule import (
    SCHEDULE_STATES,
    EditOptions,
    Firing,
    ScheduleFacts,
    ScheduleState,
    Spec,
    check_removed,
    make_spec,
)
from mainspring.model.schedules.search import ScheduleFilterState, ScheduleOrder, SchedulePage
from mainspring.model.schedules.times import Times
from mainspring.rules import Rule
from mainspring.rules.rule import anchored
from mainspring.spelling import spelled_verbs
from mainspring.store.connection import Document
from mainspring.store.fitting import fit
from mainspring.store.schedules.changes import Changed
from mainspring.store.schedules.codec import check_sound, decode_schedule
from mainspring.store.schedules.ledger import Backfill, Which, decode_backfill
from mainspring.store.shapes import SCHEDULE

_LEDGER_AT_MOST = 10_000
_BACKFILLED_AT_MOST = 10_000
_LONGEST_NAME = 150


@dataclass(frozen=True)
class Schedule(ScheduleFacts):
    """A stored schedule, as it was when it was read, with methods to manage it."""

    _verbs: Schedules | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _face(self) -> Schedules:
        if self._verbs is None:
            raise ConfigurationError("This schedule was not read from a Scheduler, so its methods cannot be used.")
        return self._verbs

    async def refresh(self) -> Schedule:
        """Return the schedule as it is now."""
        return await self._face().get(self.id)

    async def pause(self, reason: str = "", *, actor: str | None = None) -> Schedule:
        """Pause it: it does not fire until it is resumed."""
        return await self._face().pause(self.id, reason, actor=actor)

    async def resume(self) -> Schedule:
        """Resume it: it fires again from now on."""
        return await self._face().resume(self.id)

    async def trigger(
        self, *, overlap: Overlap | None = None, reason: str = "", actor: str | None = None, job_id: str | None = None
    ) -> Job:
        """Make a job now, in addition to the firings."""
        return await self._face().trigger(self.id, overlap=overlap, reason=reason, actor=actor, job_id=job_id)

    async def skip_next(self, reason: str = "", *, actor: str | None = None, request_id: str | None = None) -> Schedule:
        """Skip the next firing: it makes no job."""
        return await self._face().skip_next(self.id, reason, actor=actor, request_id=request_id)

    async def edit(self, /, **changes: Any) -> Schedule:
        """Change it, with the arguments of `scheduler.schedules.edit`."""
        return await self._face().edit(self.id, **changes)

    async def delete(self) -> None:
        """Delete it, and its ledger. Its jobs stay."""
        await self._face().delete(self.id)

    async def ledger(self, start: datetime, end: datetime, *, limit: int = 1000, latest: bool = False) -> list[Entry]:
        """List every firing from `start` (inclusive) to `end` (exclusive), with its outcome."""
        return await self._face().ledger(self.id, start, end, limit=limit, latest=latest)

    async def upcoming(self, count: int = 10) -> list[Firing]:
        """List the next firings, with notes on firings that were moved."""
        return await self._face().upcoming(self.id, count)

    async def preview_backfill(self, start: datetime, end: datetime, *, which: Which = "not_run") -> list[Entry]:
        """List the firings of a past window for which `backfill` would make jobs."""
        return await self._face().preview_backfill(self.id, start, end, which=which)

    async def backfill(self, /, start: datetime, end: datetime, **options: Any) -> Backfill:
        """Make the jobs of the firings in a past window, with the arguments of `scheduler.schedules.backfill`."""
        return await self._face().backfill(self.id, start, end, **options)


@spelled_verbs
class Schedules:
    """The verbs for stored schedules."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs
        self._stored = StoredSchedules(core, self)
        self._views = ScheduleViews(core)

    # -- looking ---------------------------------------------------------------------------------------------------

    async def get(self, schedule_id: str, *, scope: Scope = EVERYTHING) -> Schedule:
        """Return the schedule as it is stored now. Raise ScheduleNotFound if there is no such schedule within the
        `scope`."""
        return self._stored.decode(await (await self._core.store()).schedules.get(_id(schedule_id), scope))

    async def find(
        self,
        *,
        state: ScheduleState | None = None,
        name: str | None = None,
        tag: str | None = None,
        after: str | None = None,
    ) -> AsyncIterator[Schedule]:
        """Iterate over the schedules that match, in the order of their ids. With `after`, start after this id."""
        if state is not None and state not in SCHEDULE_STATES:
            raise ConfigurationError(f"There is no state {state!r}; a schedule is {', '.join(SCHEDULE_STATES)}.")
        store = await self._core.store()
        async for document in store.schedules.find(name, tag, None if after is None else _id(after)):
            schedule = self._stored.decode(document)
            if state is None or schedule.state == state:
                yield schedule

    async def search(
        self,
        *,
        state: ScheduleFilterState | None = None,
        name: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        text: str | None = None,
        order: ScheduleOrder = "id",
        scope: Scope | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> SchedulePage[Schedule]:
        """Return a page of the schedules that match all given filters. `after` is the `next` of the previous page.

        `text` is a part of the id or the name; upper and lower case are equal. A schedule is "failing" if its last job
        failed or is being retried, or if it has consecutive failures. `order` is "id" or "next"; "next" lists the
        schedules that have a next firing, earliest first. The cost of a page is bounded, however many schedules there
        are: if few match, a page may be short and not `complete`.
        """
        given = {"state": state, "name": name, "queue": queue, "tag": tag, "text": text, "order": order}
        return await self._views.page(self._stored.decode, given, scope, limit, after)

    async def recent(
        self, ids: Sequence[str], count: int = 20, *, scope: Scope = EVERYTHING
    ) -> dict[str, list[RecentFiring]]:
        """List the last `count` firings of up to 40 schedules, by id, each with its outcome and the state of its job.

        Firings on days that a calendar leaves out are not included; `ledger` has them.
        """
        return await self._views.recent(ids, count, scope)

    async def coming(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        step: Duration = "1h",
        *,
        heaviest: int = 5,
        scope: Scope = EVERYTHING,
    ) -> Coming:
        """Count the coming firings of all schedules in buckets of `step`, with the `heaviest` schedules of each.

        Without a `start`, the first bucket contains the present and counts from the current minute on. Without an
        `end`, the buckets cover a day. Firings count at their nominal times. Each call does a bounded amount of work:
        with thousands of schedules, the first results are not `complete`, and a later call continues.
        """
        return await self._views.coming(start, end, step, scope, heaviest)

    async def preview(
        self,
        rule: Rule,
        count: int = 10,
        *,
        start: datetime | None = None,
        schedule_id: str = "preview",
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        max_runs: int | None = None,
        jitter: Seconds = 0.0,
    ) -> list[Firing]:
        """List the next firings of a rule after `start` (default: now), with notes on firings that were moved. Nothing
        is stored.

        `H` and jitter depend on the schedule's id: pass the id that the schedule will have.
        """
        store = await self._core.store()
        after = truncate(store.clock.now() if start is None else instant(start, "start"))
        options = {"start_at": start_at, "end_at": end_at, "max_runs": max_runs, "jitter": jitter}
        spec = make_spec(schedule_id, make_draft("preview", None), rule, options)
        rule = anchored(spec.rule, spec.start_at or after)
        calendars = {name: await calendar_of(store, name) for name in rule.calendars}
        times = Times(spec.id, rule.bind(spec.id, calendars), spec.start_at, spec.end_at, spec.jitter)
        check_whole(count, "count", 0, PREVIEWED_AT_MOST)
        return firings(times, after, min(count, spec.policy.max_runs or count))

    async def upcoming(self, schedule_id: str, count: int = 10) -> list[Firing]:
        """List the next firings of a stored schedule, paused or not, with notes on firings that were moved."""
        check_whole(count, "count", 0, PREVIEWED_AT_MOST)
        store = await self._core.store()
        document = check_sound(await store.schedules.get(_id(schedule_id)))
        times = await store.schedules.times(document)
        limit, now = document.get("max_runs"), truncate(store.clock.now())
        left = count if limit is None else min(count, max(0, limit - document.get("runs", 0)))
        waits = document.get("due_at") is not None and document["due_at"] > now  # maybe only for its jitter
        return firings(times, document["cursor"] if waits else max(document["cursor"], now), left)

    async def ledger(
        self, schedule_id: str, start: datetime, end: datetime, *, limit: int = 1000, latest: bool = False
    ) -> list[Entry]:
        """List the first `limit` firings from `start` (inclusive) to `end` (exclusive), each with its outcome. With
        `latest`, list the last `limit` firings up to now, without those that a calendar left out."""
        check_whole(limit, "limit", 1, _LEDGER_AT_MOST)
        store = await self._core.store()
        document = check_sound(await store.schedules.get(_id(schedule_id)))
        read = store.ledger.latest if latest else store.ledger.entries
        return await read(document, instant(start, "start"), instant(end, "end"), limit)

    # -- changing --------------------------------------------------------------------------------------------------

    async def pause(self, schedule_id: str, reason: str = "", *, actor: str | None = None) -> Schedule:
        """Pause a schedule: it does not fire until it is resumed. Its running jobs continue."""
        store = await self._core.store()
        changed = await store.schedules.pause(_id(schedule_id), check_reason(reason), check_actor(actor))
        schedule = self._stored.changed(changed)
        if changed.changed:
            self._core.events.emit("schedule:pause", Schedule(**decode_schedule(changed.document), _verbs=self))
        return schedule

    async def resume(self, schedule_id: str) -> Schedule:
        """Resume a schedule: it fires again from now on. `backfill` can make the jobs of the firings during the
        pause."""
        store = await self._core.store()
        return self._stored.changed(await store.schedules.resume(_id(schedule_id)))

    async def skip_next(
        self, schedule_id: str, reason: str = "", *, actor: str | None = None, request_id: str | None = None
    ) -> Schedule:
        """Skip the next firing of a schedule: it makes no job. A second call also skips the firing after that, unless
        it has the same `request_id`, a text of your choice."""
        store = await self._core.store()
        request = None if request_id is None else check_name(request_id, "request_id")
        return self._stored.changed(
            await store.schedules.skip_next(_id(schedule_id), check_reason(reason), check_actor(actor), request)
        )

    async def trigger(
        self,
        schedule_id: str,
        *,
        overlap: Overlap | None = None,
        reason: str = "",
        actor: str | None = None,
        job_id: str | None = None,
    ) -> Job:
        """Make a job of a schedule now, in addition to its firings. This also works while the schedule is paused.

        The schedule's overlap policy applies, unless you pass another. If the policy is "skip" and an earlier job of
        the schedule has not ended, raise ScheduleStateError. `job_id`, 24 hexadecimal digits, is the last part of the
        job's id, which is the schedule's id, "!" and `job_id`. A second call with the same `job_id` returns the job
        that the first call made.
        """
        if overlap is not None and overlap not in OVERLAPS:
            raise InvalidSchedule(f"overlap must be one of {', '.join(OVERLAPS)}, not {overlap!r}.")
        store = await self._core.store()
        changed, job_id = await store.schedules.trigger(
            _id(schedule_id),
            overlap,
            check_reason(reason),
            check_actor(actor),
            None if job_id is None else check_job_id(job_id),
        )
        self._stored.changed(changed)
        return self._jobs.decode(await store.jobs.get(job_id))

    async def edit(
        self,
        schedule_id: str,
        *,
        repeat: Rule | Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        remove: Sequence[str] = (),
        **options: Unpack[EditOptions],
    ) -> Schedule:
        """Change a schedule. Options that you do not pass stay as they are. A new rule applies from now on.

        `remove` names options to remove, such as ["end_at", "max_runs"].
        """
        check_removed(remove)
        if options.get("paused") is not None:
            raise InvalidSchedule("paused is for a new schedule; use schedules.pause() and schedules.resume().")
        store = await self._core.store()
        changed: Fields = {key: value for key, value in options.items() if value is not None}
        given: Any = {key: changed.pop(key) for key in changed.keys() & TemplateChanges.__annotations__.keys()}
        if data is not None:
            await self._core.live_handlers.look(store)

        def respec(document: Document) -> Spec:
            return edited_spec(self._core, document, repeat, data, given, changed | dict.fromkeys(remove))

        return self._stored.changed(await store.schedules.edit(_id(schedule_id), respec))

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule and its ledger. Its jobs stay."""
        await (await self._core.store()).schedules.delete(_id(schedule_id))
        self._core.worker.schedules_changed()

    # -- backfill --------------------------------------------------------------------------------------------------

    async def preview_backfill(
        self, schedule_id: str, start: datetime, end: datetime, *, which: Which = "not_run", limit: int = 1000
    ) -> list[Entry]:
        """List the first `limit` firings of a past window for which `backfill` would make jobs."""
        check_whole(limit, "limit", 1, _BACKFILLED_AT_MOST)
        store = await self._core.store()
        document = check_sound(await store.schedules.get(_id(schedule_id)))
        start, end = window(store, start, end, which)
        return (await to_backfill(store, document, start, end, which, limit))[:limit]

    async def backfill(
        self,
        schedule_id: str,
        start: datetime,
        end: datetime,
        *,
        which: Which = "not_run",
        limit: int = 1000,
        actor: str | None = None,
        backfill_id: str | None = None,
    ) -> Backfill:
        """Make the jobs of the firings in a past window: only of those that were missed or skipped, or of all.

        A window with more than `limit` firings is refused before any job is made. After an interruption, a second call
        with the same window continues the backfill and makes no job twice. Repeating a completed backfill has no
        effect; another `backfill_id` starts it again.
        """
        check_whole(limit, "limit", 1, _BACKFILLED_AT_MOST)
        store = await self._core.store()
        document = check_sound(await store.schedules.get(_id(schedule_id)))
        start, end = window(store, start, end, which)
        if len(await to_backfill(store, document, start, end, which, limit + 1)) > limit:
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
                self._core.worker.schedules_changed()
            progress = await store.ledger.end_backfill(progress)
        return decode_backfill(progress)


class StoredSchedules:
    """Stores schedules, and makes a `Schedule` of each document."""

    def __init__(self, core: Core, verbs: Schedules) -> None:
        self._core = core
        self._verbs = verbs

    async def put(self, spec: Spec, app: str | None = None) -> Schedule:
        """Store a schedule; `app` is the program that declares it."""
        return self.changed(await (await self._core.store()).schedules.put(spec, app=app))

    def changed(self, changed: Changed) -> Schedule:
        """Notify this process's callbacks and worker of a change, and return the schedule after it."""
        announce_fired(self._core.events, changed.fired)
        if changed.changed or changed.fired:
            self._core.worker.schedules_changed()
        return self.decode(changed.document)

    def decode(self, document: Document) -> Schedule:
        """The schedule of a document."""
        facts = decode_schedule(document)
        job = fit(document, SCHEDULE).document.get("job") or {}
        if job.get("sealed"):
            template = {"_id": document["_id"], "job": job}
            facts |= {"kept": facts["data"], "data": self._core.privacy.cipher.decrypt_template(template)}
        return Schedule(**facts, _verbs=self._verbs)


def new_schedule_id(name: str) -> str:
    """A new id, for a schedule whose caller gave none."""
    return f"{name[:_LONGEST_NAME]}-{secrets.token_hex(4)}"


def _id(schedule_id: object) -> str:
    if not isinstance(schedule_id, str) or not schedule_id:
        raise ConfigurationError(f"A schedule's id is a non-empty text, not {schedule_id!r}.")
    return schedule_id
