"""The registry of live workers, and the locks of chores for which one worker is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from mainspring.clock import truncate
from mainspring.model.jobs.declared_defaults import JobDefaults, Registered, told_defaults
from mainspring.model.jobs.handler_status import HandlerStatus, described, handlers_of, started_first
from mainspring.model.limits.reported_limits import reported_breakers, reported_limits
from mainspring.model.workers import Drain, RunningSlot, WorkerStatus
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.locks import Locks
from mainspring.store.schema import BEAT_AT, BY_ID, HANDLERS
from mainspring.store.shapes import WORKER

BEAT_EVERY = 8.0
_DEAD_AFTER = 3 * BEAT_EVERY
_FORGOTTEN_AFTER = timedelta(hours=1)
_ROOM = ("queues", "concurrency", "running", "busy", "drain")
_ABLE = ("queues", "handlers", "versions", "keys", "drain")
_SLOTS = ("slots",)
_REGISTERED = ("handlers", "versions", "defaults", "started_at")
_SERVING = (*_REGISTERED, "queues")
WITHOUT_DESCRIPTIONS = {"described": 0}
_WORKERS_SHOWN = 1_000
_DESCRIBING = 20
"""The workers whose descriptions are read at most; usually the latest one has all handlers."""


class Workers:
    """The store's verbs for the workers' registry and the chores' locks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._locks = Locks(connection.locks, connection.clock)

    async def live(self) -> list[WorkerStatus]:
        """The workers whose last heartbeat is recent, in the order of their ids, without their handlers: every busy
        worker reads this every other second."""
        found = await self._find(self._alive(), BEAT_AT, _ROOM)
        return sorted(found, key=lambda worker: worker.id)

    async def live_in_full(self) -> list[WorkerStatus]:
        """The workers whose last heartbeat is recent, with all that they report."""
        return await self._find(self._alive(), BEAT_AT, WITHOUT_DESCRIPTIONS)

    async def with_slots(self) -> list[WorkerStatus]:
        """The workers whose last heartbeat is recent, with the jobs that they run."""
        return await self._find(self._alive(), BEAT_AT, _SLOTS)

    async def latest(self) -> list[WorkerStatus]:
        """The workers whose last heartbeat was within the last hour or so, the latest first."""
        found = await self._connection.workers.find_all(
            {}, WITHOUT_DESCRIPTIONS, sort=[("beat_at", -1)], hint=BEAT_AT, limit=_WORKERS_SHOWN
        )
        since = self._alive_since()
        return [read_worker(document, live=_is_after(document.get("beat_at"), since)) for document in found]

    # -- draining --------------------------------------------------------------------------------------------------

    async def drain(self, worker: str, reason: str, actor: str | None) -> WorkerStatus | None:
        """Ask a live worker to drain, and return it; None if it is not there. An earlier request stays as it is."""
        asked: Document = {"reason": {"$literal": reason}, "at": self._connection.clock.expression()}
        asked |= {} if actor is None else {"actor": {"$literal": actor}}
        changed = await self._connection.workers.find_one_and_update(
            {"_id": worker, **self._alive()}, [{"$set": {"drain": {"$ifNull": ["$drain", asked]}}}], after=True
        )
        return None if changed is None else read_worker(changed)

    async def cancel_drain(self, worker: str) -> WorkerStatus | None:
        """Cancel the drain of a worker that has not ended, and return it; None if there is no such drain."""
        draining = {"_id": worker, "drain": {"$exists": True}, "drain.ended": {"$ne": True}, **self._alive()}
        changed = await self._connection.workers.find_one_and_update(draining, {"$unset": {"drain": ""}}, after=True)
        return None if changed is None else read_worker(changed)

    async def end_drain(self, worker: str) -> bool:
        """Note that a drained worker ends; False if the drain was cancelled meanwhile."""
        outcome = await self._connection.workers.update_one(
            {"_id": worker, "drain": {"$exists": True}}, {"$set": {"drain.ended": True}}, hint=BY_ID
        )
        return outcome.matched_count == 1

    async def get(self, worker: str) -> WorkerStatus | None:
        """A worker whose last heartbeat is recent."""
        found = await self._connection.workers.find_one({"_id": worker, **self._alive()}, hint=BY_ID)
        return None if found is None else read_worker(found)

    async def registered(self) -> Registered:
        """The handlers of live workers with their defaults. Where workers disagree, as during a deploy, the one that
        was started last counts."""
        found = await self._find(self._alive(), BEAT_AT, _REGISTERED)
        defaults: dict[str, JobDefaults] = {}
        for worker in sorted(found, key=started_first):
            defaults |= worker.defaults
        return Registered(defaults, any(worker.handlers is None for worker in found))

    async def handlers(self, name: str | None = None) -> list[HandlerStatus]:
        """The handlers of live workers with their descriptions; with `name`, only the one of this name."""
        alive = self._alive() if name is None else {"handlers": {"$in": [name, None]}, **self._alive()}
        workers = await self._find(alive, BEAT_AT if name is None else HANDLERS, _SERVING, limit=_WORKERS_SHOWN)
        found = handlers_of(workers)
        found = found if name is None else {key: one for key, one in found.items() if key == name}
        if not found:
            return []
        descriptions = await self._descriptions(_latest_with(found), name)
        return [described(one, descriptions.get(key, {})) for key, one in found.items()]

    async def _descriptions(self, latest: Mapping[str, str], name: str | None) -> dict[str, Document]:
        """The descriptions of handlers by name, each from the worker that was started last with it."""
        wanted = {"$filter": {"input": "$described", "cond": {"$eq": ["$$this.name", {"$literal": name}]}}}
        fields: Document = {"described": 1 if name is None else wanted}
        ids = list(dict.fromkeys(latest.values()))[:_DESCRIBING]
        found: dict[str, Document] = {}
        for document in await self._connection.workers.find_all({"_id": {"$in": ids}}, fields, hint=BY_ID):
            entries = document.get("described")
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, Mapping) and latest.get(str(entry.get("name"))) == document["_id"]:
                    found[str(entry["name"])] = dict(entry)
        return found

    async def with_handler(self, name: str, queue: str | None = None) -> list[WorkerStatus]:
        """The live workers that have a handler for a name, or take any; with `queue`, only workers that serve it."""
        able: Document = {"handlers": {"$in": [name, None]}, **self._alive()}
        if queue is not None:
            able["queues"] = {"$in": [queue, None]}
        return await self._find(able, HANDLERS, _ABLE)

    def _alive(self) -> Document:
        return {"beat_at": {"$gt": self._alive_since()}}

    def _alive_since(self) -> datetime:
        return truncate(self._connection.clock.now() - timedelta(seconds=_DEAD_AFTER))

    async def _find(
        self, filter: Document, hint: str, fields: Sequence[str] | Mapping[str, int] | None = None, limit: int = 0
    ) -> list[WorkerStatus]:
        found = await self._connection.workers.find_all(filter, fields, hint=hint, limit=limit)
        return [read_worker(document) for document in found]

    async def gone(self, workers: Sequence[str]) -> list[str]:
        """The workers among these whose lease has run out, or that have left."""
        if not workers:
            return []
        grace = int(self._connection.settings.rescue_grace * 1000)
        since = {"$subtract": [self._connection.clock.expression(), grace]}
        alive = set(
            await self._connection.workers.find_ids(
                {"_id": {"$in": list(workers)}, "$expr": {"$gt": ["$lease_until", since]}}, hint=BY_ID
            )
        )
        return [worker for worker in workers if worker not in alive]

    async def leave(self, worker: str) -> None:
        """Take a worker out of the registry."""
        await self._connection.workers.delete_one({"_id": worker})

    async def forget_dead(self) -> int:
        """Delete workers without a heartbeat for a long time."""
        before = truncate(self._connection.clock.now() - _FORGOTTEN_AFTER)
        return await self._connection.workers.delete_some({"beat_at": {"$lt": before}}, hint=BEAT_AT, limit=100)

    async def lock(self, chore: str, owner: str, seconds: float) -> bool:
        """Take the lock of a chore for `seconds`; returns whether this owner has it."""
        return await self._locks.take(chore, owner, seconds)

    async def unlock(self, chore: str, owner: str) -> None:
        """Release a lock before its time, if this owner has it."""
        await self._locks.give_up(chore, owner)

    async def locked(self, chore: str) -> bool:
        """Whether this lock is taken now."""
        return await self._locks.is_taken(chore)


def _latest_with(found: Mapping[str, HandlerStatus]) -> dict[str, str]:
    """The id of the worker that was started last with a handler, by the handler's name."""
    return {name: status.served_by[-1].id for name, status in found.items()}


def read_worker(stored: Document, *, live: bool = True) -> WorkerStatus:
    """A worker, from its document in the registry."""
    fitted = fit(stored, WORKER)
    document = fitted.document
    return WorkerStatus(
        id=str(document["_id"]),
        host=document.get("host", ""),
        pid=document.get("pid", 0),
        queues=_texts(document.get("queues")),
        handlers=_texts(document.get("handlers")),
        concurrency=document.get("concurrency", 0),
        running=document.get("running", 0),
        live=live,
        started_at=document.get("started_at"),
        beat_at=document.get("beat_at"),
        lease_until=document.get("lease_until"),
        version=document.get("version"),
        release=document.get("release"),
        versions=_versions(document),
        keys=frozenset(document.get("keys") or ()),
        limits=reported_limits(document),
        breakers=reported_breakers(document),
        defaults=told_defaults(document),
        memory=document.get("memory"),
        loop_lag=None if (lag := document.get("lag_ms")) is None else lag / 1000,
        slots=tuple(_slot(one) for one in document.get("slots") or ()),
        busy={one["queue"]: int(one["n"]) for one in document.get("busy") or () if "queue" in one and "n" in one},
        drain=None if (drain := document.get("drain")) is None else _drain(drain),
        error=fitted.error,
    )


def _slot(one: Document) -> RunningSlot:
    gates = tuple(one.get("gates") or ())
    return RunningSlot(one.get("job", ""), one.get("name", ""), one.get("queue", ""), one.get("since"), gates)


def _drain(asked: Document) -> Drain:
    return Drain(asked.get("at"), asked.get("reason", ""), asked.get("actor"), asked.get("ended", False))


def _is_after(instant: object, since: datetime) -> bool:
    return isinstance(instant, datetime) and instant > since


def _versions(document: Document) -> dict[str, int]:
    entries = document.get("versions") or ()
    return {entry["name"]: int(entry["version"]) for entry in entries if "name" in entry and "version" in entry}


def _texts(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)
