"""Storing, reading and changing schedules: the verbs. `store/schedules/changes.py` has the protocol of a change."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import bson
from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from mainspring.errors import (
    CalendarNotFound,
    ScheduleNotFound,
    ScheduleStateError,
    Unavailable,
)
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.access.idempotency import remembered
from mainspring.model.schedules.firing_plan import Make, Policy, overlap
from mainspring.model.schedules.ledger import SKIPPED, TRIGGERED, Row
from mainspring.model.schedules.schedule import Spec
from mainspring.model.schedules.times import Times
from mainspring.rules import Rule
from mainspring.rules.rule import anchored
from mainspring.store.compare_and_set import back_off, compare_and_set
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.jobs.insert import Inserts
from mainspring.store.jobs.upkeep import Upkeep
from mainspring.store.privacy.cipher import Cipher
from mainspring.store.refusals import Refused, brief
from mainspring.store.schedules.calendars import Calendars
from mainspring.store.schedules.changes import ATTEMPTS, Alter, Changed, ScheduleChanges
from mainspring.store.schedules.codec import (
    ASKED,
    encode_make,
    encode_row,
    is_over,
    is_tracked,
    policy_of,
    runs_of,
    spec_fields,
    stored_rule,
)
from mainspring.store.schedules.decisions import unchanged
from mainspring.store.schedules.eras import declaration, not_fired
from mainspring.store.schedules.firing import Fired, Firing
from mainspring.store.schedules.zone_versions import is_current, zones_fingerprint
from mainspring.store.schema import BY_ID, CALENDARS, DECLARED, LAYOUT, ZONES

logger = logging.getLogger("mainspring")

_BATCH = 200


class Schedules:
    """The store's verbs for schedules."""

    def __init__(
        self,
        connection: Connection,
        inserts: Inserts,
        firing: Firing,
        upkeep: Upkeep,
        calendars: Calendars,
        cipher: Cipher,
    ) -> None:
        self._connection = connection
        self._cipher = cipher
        self._inserts = inserts
        self._firing = firing
        self._changes = ScheduleChanges(connection, firing, calendars)
        self._tending = upkeep
        self._calendars = calendars
        self._unfollowed = Refused[str]()

    # -- reading ---------------------------------------------------------------------------------------------------

    async def get(self, schedule_id: str, scope: Scope = EVERYTHING) -> Document:
        """The schedule. A schedule out of the scope does not exist for the caller."""
        return await self._changes.get(schedule_id, scope)

    async def times(self, document: Document) -> Times:
        """The times of a stored schedule."""
        return await self._changes.times(document)

    async def find(
        self, name: str | None = None, tag: str | None = None, after: str | None = None
    ) -> AsyncIterator[Document]:
        """Schedules that match, in the order of their ids; with `after`, only those behind that id."""
        wanted = {key: value for key, value in (("job.name", name), ("job.tags", tag)) if value is not None}
        while True:
            page = wanted if after is None else {**wanted, "_id": {"$gt": after}}
            found = await self._connection.schedules.find_all(
                page, {"eras": 0}, sort=[("_id", 1)], hint=BY_ID, limit=_BATCH
            )
            for document in found:
                yield document
            if len(found) < _BATCH:
                return
            after = found[-1]["_id"]

    async def get_many(self, ids: Sequence[str]) -> dict[str, Document]:
        """The schedules among these that exist, by id."""
        return await self._connection.schedules.find_dict({"_id": {"$in": list(ids)}}, {"eras": 0}, hint=BY_ID)

    async def undeclared(self, app: str, known: Sequence[str]) -> list[str]:
        """The schedules that this app declared before and no longer declares."""
        return sorted(set(await self._connection.schedules.find_ids({"declared.app": app}, hint=DECLARED)) - set(known))

    async def using_calendar(self, name: str, *, behind: int | None = None) -> list[str]:
        """The schedules whose rule needs a calendar; with `behind`, only those that do not use this revision of it."""
        wanted: Document = {"calendars.name": name}
        if behind is not None:
            wanted["calendars"] = {"$elemMatch": {"name": name, "rev": {"$ne": behind}}}
        return sorted(
            document["_id"]
            for document in await self._connection.schedules.find_all(wanted, {"_id": 1}, hint=CALENDARS)
        )

    # -- creating and changing -------------------------------------------------------------------------------------

    async def put(self, spec: Spec, *, app: str | None = None) -> Changed:
        """Create a schedule, or change it to the spec; a schedule that equals the spec is left alone.

        With `app`, the schedule is declared in that app's code. A schedule with the same declaration as before is left
        alone even if it was edited since: the edit counts until the code changes.
        """

        async def attempt(_: int) -> Changed | None:
            existing = await self._connection.schedules.find_one({"_id": spec.id})
            if existing is not None:
                return await self._put_again(spec, existing, app)
            document = await self._new(spec, app)
            with suppress(DuplicateKeyError):
                await self._connection.schedules.insert_one(document)
                return await self._caught_up(Changed(document))
            return None

        return await compare_and_set(attempt, f"schedule {spec.id!r}", ATTEMPTS)

    async def _put_again(self, spec: Spec, existing: Document, app: str | None) -> Changed:
        fields = await self._asked(_anchored(spec, self._changes.now(), stored_rule(existing)), existing)
        declared = existing.get("declared")
        if app is not None:
            declarations = self._declarations(app, spec)
            if declared in declarations:
                return Changed(existing, changed=False)
            fields["declared"] = declarations[0]
        elif declared is not None:
            fields["declared"] = declared
        if all(existing.get(key) == fields.get(key) for key in (*ASKED, "declared")):
            return Changed(existing, changed=False)
        return await self.edit(spec.id, lambda document: spec, fields.get("declared"))

    async def edit(
        self, schedule_id: str, respec: Callable[[Document], Spec], declared: Document | None = None
    ) -> Changed:
        """Change a schedule to the spec that `respec` makes of its document."""

        async def alter(document: Document, now: datetime) -> Document | None:
            spec = _anchored(respec(document), now, stored_rule(document))
            fields = {**await self._asked(spec, document), "declared": declared or document.get("declared")}
            keys = (*ASKED, "calendars", "zones", "declared")
            return {key: fields.get(key) for key in keys if document.get(key) != fields.get(key)} or None

        return await self._caught_up(await self._changes.change(schedule_id, alter))

    async def delete(self, schedule_id: str) -> Document:
        """Delete a schedule and its ledger. Its jobs stay; jobs that waited for a run are released."""
        document = await self._delete(schedule_id)
        waiting = _waiting(document)
        if waiting:
            await self._tending.release_these(waiting)
        await self._connection.ledger.delete_many({"schedule_id": schedule_id})
        return document

    async def _delete(self, schedule_id: str) -> Document:
        """Delete the document in a state in which no decision is half carried out: otherwise a process could afterwards
        make a job that has to wait for another one, and the job would wait for ever. Where the server refuses to
        change the schedule, its decisions cannot be carried out, and it is deleted as it is."""

        async def attempt(_: int) -> Document | None:
            document, _fired = await self._changes.carried_out(schedule_id)
            if self._changes.is_halfway(document):
                return None
            outcome = await self._connection.schedules.delete_one(unchanged(document))
            return document if outcome.deleted_count else None

        return await compare_and_set(attempt, f"schedule {schedule_id!r}", ATTEMPTS, back_off)

    async def pause(self, schedule_id: str, reason: str, actor: str | None) -> Changed:
        """Pause a schedule until it is resumed. A paused schedule keeps the time of its pause; a new reason counts."""
        why = {"reason": reason, **({"actor": actor} if actor else {})}

        async def alter(document: Document, now: datetime) -> Document | None:
            before = document.get("paused")
            if before is not None and not reason:
                return None
            return {"paused": {"at": now if before is None else before["at"], **why}}

        return await self._changes.change(schedule_id, alter)

    async def resume(self, schedule_id: str) -> Changed:
        """Resume a schedule from now on; the firings in between go into its ledger as skipped."""

        async def alter(document: Document, now: datetime) -> Document | None:
            if "paused" not in document:
                return None
            rows = not_fired(document, await self.times(document), now)
            fields: Document = {"paused": None, "failures": None}
            if not is_over(document):  # a schedule that is over had no firings meanwhile
                fields["cursor"] = max(now, document["cursor"])
            return {**fields, "making": {"rows": rows}} if rows else fields

        return await self._changes.change(schedule_id, alter)

    async def skip_next(self, schedule_id: str, reason: str, actor: str | None, request: str | None = None) -> Changed:
        """Decide the next firing now: it makes no job. A request that was carried out before changes nothing."""

        async def alter(document: Document, now: datetime) -> Document | None:
            requests = document.get("requests", [])
            if request in requests:
                return None
            at = document.get("next_at")
            if at is None:
                raise ScheduleStateError(f"Schedule {schedule_id!r} has no next firing that could be skipped.")
            row = Row(at, at, SKIPPED, f"by hand: {reason}" if reason else "by hand", actor=actor)
            fields: Document = {"cursor": at, "making": {"rows": [encode_row(schedule_id, row)]}}
            return fields if request is None else {**fields, "requests": remembered(requests, request)}

        return await self._changes.change(schedule_id, alter)

    async def trigger(
        self, schedule_id: str, policy: str | None, reason: str, actor: str | None, seed: str | None = None
    ) -> tuple[Changed, str]:
        """Make a job now, beside the firings. Returns the job's id, which ends with the seed: calls with the same seed
        make the job once."""
        job_id = f"{schedule_id}!{seed or ObjectId()}"
        if seed is not None and await self._is_triggered(job_id):
            return Changed(await self.get(schedule_id), changed=False), job_id
        fired = await self._review(schedule_id)

        async def alter(document: Document, now: datetime) -> Document | None:
            if seed is not None and await self._is_triggered(job_id):
                return None
            going, rows = runs_of(document), list[Row]()
            chosen = Policy(overlap=policy or policy_of(document).overlap)
            kept, cancels = overlap([Make(job_id, now, now)], chosen, going, rows)
            if not kept:
                raise ScheduleStateError(
                    f"A run of schedule {schedule_id!r} is still going or waits ({going.last}), and its overlap is "
                    f'{chosen.overlap!r}; wait for it, cancel it, or trigger with overlap="allow".'
                )
            row = Row(now, now, TRIGGERED, reason, job_id=job_id, actor=actor)
            making = {"jobs": [encode_make(kept[0])], "rows": [encode_row(schedule_id, row)], "cancels": list(cancels)}
            fields: Document = {"making": making}
            if is_tracked(document):
                queued = [{"job": job, "after": after} for job, after in going.queued]
                fields |= {"live": going.live or None, "queued": queued or None}
            return fields

        changed = await self._changes.change(schedule_id, alter)
        return replace(changed, fired=fired + changed.fired), job_id

    async def _is_triggered(self, job_id: str) -> bool:
        """Whether a trigger made this job; its row exists even if the job was deleted."""
        return await self._connection.ledger.find_one({"_id": job_id}, {"_id": 1}) is not None

    async def _review(self, schedule_id: str) -> list[Fired]:
        """Note the runs that have ended, which otherwise happens when the schedule is due."""
        document, fired = await self._changes.carried_out(schedule_id)
        return fired + await self._firing.advance([document]) if document.get("live") else fired

    # -- changes of calendars and zones ----------------------------------------------------------------------------

    async def calendar_changed(self, name: str, rev: int) -> list[Fired]:
        """Put a revision of a calendar in force for every schedule that needs the calendar and has another revision."""

        async def alter(document: Document, now: datetime) -> Document | None:
            newest = [await self._calendar(entry["name"]) for entry in document.get("calendars", ())]
            return None if newest == document.get("calendars", []) else {"calendars": newest}

        behind = await self.using_calendar(name, behind=rev)
        return (await self._change_each(behind, alter, f"does not follow the calendar {name}"))[1]

    async def _caught_up(self, changed: Changed) -> Changed:
        """Check whether a calendar was changed meanwhile: the process that changed it may not have seen this
        schedule."""
        for entry in changed.document.get("calendars", ()):
            newest = await self._calendars.get(entry["name"])
            if newest is not None and newest.rev != entry["rev"]:
                fired = await self.calendar_changed(entry["name"], newest.rev)
                return Changed(await self.get(changed.document["_id"]), changed.fired + fired)
        return changed

    async def stale_zones(self) -> list[str]:
        """The fingerprints of zones that schedules were computed by and that differ from the zones' rules now."""
        return [
            one["_id"]
            for one in await self._connection.schedules.aggregate(
                # One seek for each fingerprint; with $exists, the server would read every document.
                [{"$match": {"zones": {"$gte": ""}}}, {"$group": {"_id": "$zones"}}],
                hint=ZONES,
            )
            if not is_current(one["_id"])
        ]

    async def refresh_timezones(self, limit: int = 50) -> tuple[list[str], list[Fired]]:
        """Compute the next firings of up to `limit` schedules anew where the rules of a zone have changed; returns the
        changed schedules, and the firings that were settled on the way. None are left when none are returned."""
        stale = await self.stale_zones()
        if not stale:
            return [], []
        wanted = {"zones": {"$in": stale}, **self._unfollowed.filter}
        ids = await self._connection.schedules.find_ids(wanted, hint=ZONES, limit=limit)
        return await self._change_each(ids, _follow, "does not follow its time zones")

    async def _change_each(self, ids: Sequence[str], alter: Alter, lament: str) -> tuple[list[str], list[Fired]]:
        """Change schedules one after the other; returns the changed schedules, and the firings that were settled on the
        way. A schedule that cannot be changed does not stop the others."""
        moved: list[str] = []
        fired: list[Fired] = []
        for schedule_id in ids:
            try:
                changed = await self._changes.change(schedule_id, alter)
            except (ScheduleNotFound, CalendarNotFound):  # deleted meanwhile
                continue
            except Unavailable:
                raise
            except Exception as error:
                self._unfollowed.add(schedule_id, error)
                logger.error("Schedule %s %s: %s", schedule_id, lament, brief(error))
                continue
            fired += changed.fired
            moved += [schedule_id] if changed.changed else []
        return moved, fired

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _new(self, spec: Spec, app: str | None) -> Document:
        now = self._changes.now()
        fields = await self._asked(_anchored(spec, spec.start_at or now, None))
        document: Document = {
            "_id": spec.id,
            "v": LAYOUT,
            "rev": 0,
            "decision_id": secrets.token_hex(8),
            **fields,
            "since": now,
            "cursor": now,
            "runs": 0,
            "told": now,
            "created_at": now,
            "updated_at": now,
        }
        if spec.paused:
            document["paused"] = {"at": now, "reason": ""}
        if app is not None:
            document["declared"] = self._declarations(app, spec)[0]
        await self._changes.retime(document, document, now)
        return {key: value for key, value in document.items() if value is not None}

    async def _asked(self, spec: Spec, existing: Document | None = None) -> Document:
        fields = self._fields(spec, existing)
        if spec.rule.calendars:
            fields["calendars"] = [await self._calendar(name) for name in spec.rule.calendars]
        zones = zones_fingerprint(spec.rule.zones)
        return fields if zones is None else {**fields, "zones": zones}

    def _fields(self, spec: Spec, existing: Document | None = None) -> Document:
        """The requested fields as they will be read back, so that they can be compared."""
        fields = spec_fields(spec, self._inserts.document(spec.draft))
        fields["job"] = self._cipher.encrypt_template(
            spec.id, fields["job"], None if existing is None else existing["job"]
        )
        return bson.decode(bson.encode(fields, codec_options=CODEC), CODEC)

    def _declarations(self, app: str, spec: Spec) -> list[Document]:
        """The fingerprint of a declaration in code; where data is encrypted, one by each of the keys."""
        if spec.draft.encrypt is None:
            return [declaration(app, self._fields(spec))]
        job = self._inserts.document(spec.draft)
        hidden = [
            {**job, "data": {"print": one}, "sealed": ["print"]} for one in self._cipher.fingerprints(job["data"])
        ]
        return [declaration(app, spec_fields(spec, one)) for one in hidden]

    async def _calendar(self, name: str) -> Document:
        found = await self._calendars.get(name)
        if found is None:
            raise CalendarNotFound(name)
        return {"name": name, "rev": found.rev}


def _waiting(document: Document) -> list[str]:
    """The jobs of a schedule that wait for a run, or were just to be released."""
    making, queued = document.get("making"), document.get("queued")
    entries = [entry.get("job") for entry in queued if isinstance(entry, dict)] if isinstance(queued, list) else []
    released = making.get("releases") if isinstance(making, dict) else None
    return [job for job in (*entries, *(released or ())) if isinstance(job, str)]


def _anchored(spec: Spec, at: datetime, before: Rule | None) -> Spec:
    return replace(spec, rule=anchored(spec.rule, at, before))


async def _follow(document: Document, now: datetime) -> Document | None:
    """Update the fingerprint of a schedule's zones: its decisions stay, and its next firing is computed anew."""
    zones = zones_fingerprint(stored_rule(document).zones)
    return None if zones == document.get("zones") else {"zones": zones}
