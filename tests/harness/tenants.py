"""Parties that share one database: each has things in every collection, all of which can be told by a word of its own.

What a party's documents say, names, ids, errors, reasons, contains its word, so that any of it is found in an answer to
another. Ids that are made by chance are kept in `ids`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId

from harness.pausing import pause
from mainspring import Calendar, Cron, Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.model.access.api_keys import Scope
from mainspring.model.access.audit import Entry

YEARLY = "0 0 1 1 *"
PAST = datetime(2030, 1, 1, tzinfo=UTC)
STATES = ("running", "completed", "failed", "cancelled", "expired", "blocked")


@dataclass(frozen=True)
class Party:
    """One party: where its jobs are, what they are called, and what it has by the name of each kind of thing."""

    word: str
    queue: str
    name: str
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def places(self) -> dict[str, str]:
        """All that a request may refer to."""
        words = {kind: f"{self.word}-{kind}" for kind in ("tag", "dedupe", "calendar", "secret", "worker", "text")}
        return {**words, "queue": self.queue, "name": self.name, "schedule": f"{self.word}-schedule", **self.ids}

    @property
    def marks(self) -> set[str]:
        """What must not be in an answer to another party."""
        return {self.word, *self.ids.values()}

    def missing(self) -> Party:
        """A party that has nothing, and would have it in the same places but for the word."""
        word = "zzmissing"
        ids = {kind: _like(one, self.word, word) for kind, one in self.ids.items()}
        return replace(
            self, word=word, queue=self.queue.replace(self.word, word), name=self.name.replace(self.word, word), ids=ids
        )


def party(word: str, **place: str) -> Party:
    return Party(word, place.get("queue", f"{word}-queue"), place.get("name", f"{word}.work"))


def _like(one: str, word: str, other: str) -> str:
    """An id of the same form that nothing has."""
    turned = one.replace(word, other)
    return turned if turned != one else f"{one[:5]}{'1' if one[5] == '0' else '0'}{one[6:]}"


async def fill(scheduler: Scheduler, one: Party) -> None:
    """Give a party something in every collection."""
    await _jobs(scheduler, one)
    await _flows(scheduler, one)
    await _schedules(scheduler, one)
    await _controls(scheduler, one)
    await _access(scheduler, one)
    await _records(scheduler, one)


async def _jobs(scheduler: Scheduler, one: Party) -> None:
    where: dict[str, Any] = {"queue": one.queue, "tags": [f"{one.word}-tag"], "delay": 3600}
    data = {"data": f"{one.word}-text"}
    one.ids["job"] = (await scheduler.schedule(one.name, data, dedupe_key=f"{one.word}-dedupe", **where)).id
    for state in STATES:
        job = await scheduler.schedule(one.name, data, parent_id=one.ids["job"], **where)
        one.ids[state] = job.id
        await _jobs_of(scheduler).update_one(
            {"_id": ObjectId(job.id)}, {"$set": _ended(one, state), "$unset": {"ready": ""}}
        )


async def _flows(scheduler: Scheduler, one: Party) -> None:
    """A declared flow, and a job whose handler has waited for a child."""
    flow = scheduler.flow(f"{one.word}-flow", {"data": f"{one.word}-text"}, delay=3600)
    flow.add(one.name, {"data": f"{one.word}-text"}, queue=one.queue, name=f"{one.word}-node")
    one.ids["declared"] = (await flow.start()).id
    where: dict[str, Any] = {"queue": one.queue, "delay": 3600}
    one.ids["flow"] = (await scheduler.schedule(one.name, **where)).id
    one.ids["member"] = (await scheduler.schedule(one.name, parent_id=one.ids["flow"], **where)).id
    member = {"flow": one.ids["flow"], "node": f"{one.word}-node"}
    await _jobs_of(scheduler).update_one({"_id": ObjectId(one.ids["flow"])}, {"$set": {"root": True}})
    await _jobs_of(scheduler).update_one({"_id": ObjectId(one.ids["member"])}, {"$set": member})


def _ended(one: Party, state: str) -> dict[str, Any]:
    """The fields of a job in a state, as a worker would have left them."""
    worker, text = f"{one.word}-worker", f"{one.word}-text"
    at = PAST + timedelta(seconds=sum(one.word.encode()))  # so that the order of those of several parties is known
    fields: dict[str, Any] = {"state": state, "tries": 1, "token": 1}
    if state == "running":
        lease = {"claimed_at": PAST, "lease_until": PAST + timedelta(days=36500)}
        return fields | {"worker": worker, "progress": {"percent": 5, "note": text}, **lease}
    if state == "blocked":
        return fields | {"waiting_for": {"by": "dependency", "note": text}}
    error = {"type": f"{one.word}Error", "message": text, "stack": text}
    attempt = {"number": 1, "token": 1, "outcome": state, "worker": worker, "started_at": PAST, "error": error}
    fields |= {"finished_at": at, "result": text, "attempts": [attempt]}
    failed = {"error": error, "fingerprint": f"{one.word}-print", "last_failure_at": at}
    return fields | (failed if state == "failed" else {})


async def _schedules(scheduler: Scheduler, one: Party) -> None:
    schedule, actor, reason = f"{one.word}-schedule", f"{one.word}-actor", f"{one.word}-reason"
    await scheduler.schedule(
        one.name,
        {"data": one.word},
        repeat=Cron(YEARLY),
        schedule_id=schedule,
        queue=one.queue,
        tags=[f"{one.word}-tag"],
    )
    one.ids["run"] = (await scheduler.schedules.trigger(schedule, actor=actor, reason=reason)).id
    await scheduler.schedules.skip_next(schedule, reason, actor=actor)
    await scheduler.schedules.pause(schedule, reason, actor=actor)
    await scheduler.calendars.put(
        f"{one.word}-calendar", Calendar(days=["2031-05-05"], description=one.word), actor=actor
    )


async def _controls(scheduler: Scheduler, one: Party) -> None:
    """Pauses, limits and breakers of what is the party's alone; and a gate, as a worker in use would have it."""
    signed: dict[str, Any] = {"reason": f"{one.word}-reason", "actor": f"{one.word}-actor"}
    own: list[dict[str, Any]] = [
        {kind: getattr(one, kind)} for kind in ("queue", "name") if one.word in getattr(one, kind)
    ]
    for target in own:
        await pause(scheduler, **target, **signed)
        await scheduler.limits.set(**target, concurrency=1, **signed)
        await scheduler.limits.open_breaker(**target, **signed)
    gate = {"_id": f"c:queue:{one.queue}", "grants": [{"w": f"{one.word}-worker", "n": 1}], "limit": 1, "line": True}
    await _db(scheduler)["jobs.gates"].update_one({"_id": gate["_id"]}, {"$set": gate}, upsert=True)


async def _access(scheduler: Scheduler, one: Party) -> None:
    scope = {"queues": [one.queue], "prefixes": [one.name]}
    one.ids["key"] = (await scheduler.api_keys.create(f"{one.word}-key", "operator", **scope, actor=one.word)).key.id  # type: ignore[arg-type]
    actor = f"key:{one.ids['key']}"
    await scheduler.secrets.put(f"{one.word}-secret", f"{one.word}-value", origins=["*"], **scope, actor=actor)  # type: ignore[arg-type]
    redrive = await scheduler.dead_letters.discard(name=f"{one.word}.nothing", reason=one.word, actor=actor)
    one.ids["redrive"] = redrive.id
    operation = await scheduler.operations.create(
        "cancel",
        {"name": f"{one.word}.nothing"},
        reason=one.word,
        actor=actor,
        start_after="1h",
        scope=Scope((one.queue,), (one.name,)),
    )
    one.ids["operation"] = operation.id
    mail = {"type": "email", "to": ["ops@example.com"]}
    # Disabled: the service would evaluate it beside the requests, and tell of the party's dead letters.
    options: Any = {**scope, "queue": one.queue, "actor": actor, "enabled": False}
    rule = await scheduler.alerts.create(one.word, "dead_letters", [mail], **options)
    one.ids["rule"] = rule.id
    await ServiceBackend(scheduler).note_change(
        Entry(actor, "job.create", one.ids["job"], "127.0.0.1", None, {"data": one.word})
    )


async def _records(scheduler: Scheduler, one: Party) -> None:
    """What the service and workers keep: answers, statistics, and the worker itself."""
    await ServiceBackend(scheduler).open_reply(f"{one.word}-reply", one.word)
    await ServiceBackend(scheduler).keep_reply(f"{one.word}-reply", 200, f'{{"data": "{one.word}"}}')
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    worker = {"queues": [one.queue], "handlers": [one.name], "beat_at": now + timedelta(days=36500), "limits": []}
    slot = {
        "job": one.ids["job"],
        "name": one.name,
        "queue": one.queue,
        "since": now,
        "gates": [f"c:queue:{one.queue}"],
    }
    worker |= {"slots": [slot], "busy": [{"queue": one.queue, "n": 1}], "concurrency": 1, "running": 1}
    await _db(scheduler)["jobs.workers"].insert_one({"_id": f"{one.word}-worker", "host": one.word, "pid": 1, **worker})
    minute = {"per": "worker", "at": now, "worker": f"{one.word}-worker"}
    counts = {"started": 5, "completed": 1, "failed": 4}
    kinds = {one.word: {"queue": one.queue, "name": one.name, **counts}}
    oldest = {one.word: {"queue": one.queue, "ms": 1000}}
    await _db(scheduler)["jobs.stats"].insert_one({"_id": minute, "total": counts, "kinds": kinds, "oldest": oldest})
    version = {"per": "version", "at": now, "version": f"{one.word} v2"}
    await _db(scheduler)["jobs.stats"].insert_one({"_id": version})
    hour = {"per": "group", "at": now.replace(minute=0), "queue": one.queue, "print": f"{one.word}-print"}
    await _db(scheduler)["jobs.stats"].insert_one({"_id": hour | {"worker": f"{one.word}-worker"}, "failed": 1})


async def documents_with(scheduler: Scheduler, marks: set[str]) -> Mapping[tuple[str, str], str]:
    """All documents that contain one of these marks, by collection and id; but for when a key was last used."""
    found: dict[tuple[str, str], str] = {}
    for name in await _db(scheduler).list_collection_names():
        async for document in _db(scheduler)[name].find({}).hint("_id_"):
            document.pop("last_used_at", None)
            text = repr(document)
            if any(mark in text for mark in marks):
                found[name, str(document["_id"])] = text
    return found


def _db(scheduler: Scheduler) -> Any:
    return scheduler.client.get_default_database()


def _jobs_of(scheduler: Scheduler) -> Any:
    return _db(scheduler)["jobs"]
