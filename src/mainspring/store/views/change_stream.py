"""The stream of changes: of jobs, schedules and controls, in the order in which they were stored.

It is the database's change stream, of which as little as possible is read: nothing of a job's data. The place of a
change in it is the server's own resume token, as a text. A reader that passes one goes on right behind it, as long as
the server's oplog reaches back so far.

An update does not say which document it is about beyond its id. The names and queues are read here, for a whole batch
of changes at once: the server's own look-up (`fullDocument: "updateLookup"`) costs it eight times as much per change.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from mainspring.clock import truncate
from mainspring.errors import ConfigurationError, Unavailable, UnsupportedServer
from mainspring.model.views.changes import CONTROL, JOB, SCHEDULE, Change, control_target, job_change
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import BY_ID

# 280 is a fatal error of the stream, such as a place that never existed, or no longer does.
_HISTORY_LOST = (280, 286)
# The codes for a text that is no resume token; the server has many, most of them numbered from 40,000 on.
_NO_PLACE, _NUMBERED = (2, 9, 14, 15, 72, 260), 40_000
_UPDATED = "updateDescription.updatedFields"
_BATCH = 1000
"""The most changes that are read at once."""


class HistoryLost(Exception):
    """The server's oplog does not reach back to the requested place."""


@contextmanager
def _explained(resuming: bool = False) -> Iterator[None]:
    """Tell permanent errors of the server from passing ones."""
    try:
        yield
    except OperationFailure as error:
        if error.code in _HISTORY_LOST:
            raise HistoryLost from error
        if resuming and error.code is not None and (error.code in _NO_PLACE or error.code >= _NUMBERED):
            raise ConfigurationError(
                "This is no place in the stream of changes of this database; leave it out to begin now."
            ) from error
        raise Unavailable(f"The stream of changes broke: {error}") from error
    except PyMongoError as error:
        raise Unavailable(f"The stream of changes broke: {error}") from error


class ChangeReader:
    """One open stream."""

    def __init__(self, stream: AsyncChangeStream[Document], events: ChangeStream) -> None:
        self._stream = stream
        self._events = events

    @property
    def place(self) -> str | None:
        """The place behind all changes read so far."""
        token = self._stream.resume_token
        return None if token is None else str(token["_data"])

    async def batch(self) -> list[Change]:
        """The next changes: those that have arrived together, at most 1,000; none where there are none within a moment.
        Raises HistoryLost and Unavailable."""
        with _explained():
            while (first := await self._stream.try_next()) is not None:
                found = [first]
                while len(found) < _BATCH and self._has_more() and (one := await self._stream.try_next()) is not None:
                    found.append(one)
                if changes := await self._events.read(found):
                    return changes
        return []

    def _has_more(self) -> bool:
        """Whether the driver has more changes of the server's last reply. It offers no public question for this; with a
        driver that has renamed its own, each batch has one change."""
        cursor = getattr(self._stream, "_cursor", None)
        return bool(getattr(cursor, "_has_next", bool)())


class ChangeStream:
    """The store's verbs for following changes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._targets: dict[str, tuple[Any, Any, Any]] = {}
        """The targets of controls: a deleted control does not name its own."""

    def check(self) -> None:
        """Raise UnsupportedServer where there are no change streams."""
        if not self._connection.supports_transactions:
            raise UnsupportedServer(
                "Following changes needs a replica set or a sharded cluster: this server is a standalone one, without "
                "change streams. Start it with --replSet, and rs.initiate() it."
            )

    @asynccontextmanager
    async def open(self, after: str | None, patience: float) -> AsyncIterator[ChangeReader]:
        """A stream from now on, or from right behind a place; `patience` is the seconds that each read may wait."""
        self.check()
        await self._learn_targets()
        database = self._connection.db.with_options(read_concern=ReadConcern("majority"))
        options: Document = {} if after is None else {"resume_after": {"_data": after}}
        with _explained(resuming=after is not None):
            stream = await database.watch(self._stages(), max_await_time_ms=int(patience * 1000), **options)
        async with stream:
            yield ChangeReader(stream, self)

    async def _learn_targets(self) -> None:
        for document in await self._connection.controls.find_all({}, {"scope": 1, "target": 1, "queue": 1}, hint=BY_ID):
            self._targets[str(document["_id"])] = _target_of(document)

    def _stages(self) -> list[Document]:
        whole = {"operationType": {"$in": ["insert", "replace", "delete"]}}
        moved = {"$or": [{f"{_UPDATED}.{field}": {"$exists": True}} for field in ("state", "progress", "v")]}
        told = {f"{_UPDATED}.told": {"$exists": True}}
        wanted = [
            {"ns.coll": self._connection.jobs.name, "$or": [{"operationType": "insert"}, moved]},
            {"ns.coll": self._connection.schedules.name, "$or": [whole, told]},
            {"ns.coll": self._connection.controls.name, "$or": [whole, told]},
        ]
        return [{"$match": {"$or": wanted}}, {"$project": _READ}]

    async def read(self, found: Sequence[Mapping[str, Any]]) -> list[Change]:
        """The changes of a part of the stream; those that are of no interest are left out."""
        documents = await self._looked_up(found)
        changes = (self._change(one, _document(one, documents)) for one in found)
        return [change for change in changes if change is not None]

    async def _looked_up(self, found: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Document]:
        """The documents that were updated, as they are now, by collection and id."""
        wanted: dict[str, Document] = {}
        for one in found:
            if one["operationType"] == "update":
                identity = one["documentKey"]["_id"]
                wanted.setdefault(one["ns"]["coll"], {})[repr(identity)] = identity
        documents: dict[tuple[str, str], Document] = {}
        for collection in (self._connection.jobs, self._connection.schedules, self._connection.controls):
            if ids := wanted.get(collection.name):
                chosen = {"_id": {"$in": list(ids.values())}}
                for document in await collection.find_all(chosen, _LOOKED_AT, hint=BY_ID):
                    documents[collection.name, repr(document["_id"])] = document
        return documents

    def _change(self, found: Mapping[str, Any], document: Document) -> Change | None:
        collection = found["ns"]["coll"]
        if collection == self._connection.jobs.name:
            return _of_job(found, document)
        if collection == self._connection.schedules.name:
            return _of_schedule(found, document)
        return self._of_control(found, document)

    def _of_control(self, found: Mapping[str, Any], document: Document) -> Change:
        control = str(found["documentKey"]["_id"])
        if document:
            self._targets[control] = _target_of(document)
        removed = found["operationType"] == "delete"
        name, queue = control_target(*self._targets.get(control, (None, None, None)))
        if removed:
            self._targets.pop(control, None)
        return Change(
            CONTROL,
            _place(found),
            truncate(found["wallTime"]),
            "removed" if removed else "set",
            control.partition(":")[0],
            name,
            queue,
            _text(document.get("state")),
        )


# The fields that are read of a job, a schedule or a control.
_LOOKED_AT = ("v", "name", "queue", "schedule_id", "flow", "state", "scope", "target", "job.name", "job.queue")
# The fields that are read of a change: the names of the fields that were set, but not their values.
_READ: Document = {
    "ns": 1,
    "operationType": 1,
    "documentKey": 1,
    "wallTime": 1,
    **{f"fullDocument.{field}": 1 for field in _LOOKED_AT},
    "state": f"${_UPDATED}.state",
    "percent": f"${_UPDATED}.progress.percent",
    "gone": "$updateDescription.removedFields",
    "fields": {"$map": {"input": {"$objectToArray": f"${_UPDATED}"}, "in": "$$this.k"}},
}


def _document(found: Mapping[str, Any], updated: Mapping[tuple[str, str], Document]) -> Document:
    """The document that a change is about: as it was inserted, or as it is now; empty where it is gone."""
    if found["operationType"] == "update":
        return updated.get((found["ns"]["coll"], repr(found["documentKey"]["_id"])), {})
    return found.get("fullDocument") or {}


def _of_job(found: Mapping[str, Any], document: Document) -> Change | None:
    if found["operationType"] == "insert":
        state = document.get("state")
        what = None if document.get("v") is None else "created"
    else:
        state = found.get("state")
        fields, gone = frozenset(found.get("fields") or ()), frozenset(found.get("gone") or ())
        tried = any(field.partition(".")[0] == "attempts" for field in fields)
        what = job_change(state, fields, "tried" if tried else None, gone)
    if what is None:
        return None
    return Change(
        JOB,
        _place(found),
        truncate(found["wallTime"]),
        what,
        str(found["documentKey"]["_id"]),
        _text(document.get("name")),
        _text(document.get("queue")),
        _text("running" if what == "progress" else state),
        found.get("percent"),
        _text(document.get("schedule_id")),
        _text(document.get("flow")),
    )


def _of_schedule(found: Mapping[str, Any], document: Document) -> Change:
    job = document.get("job") or {}
    what = {"insert": "created", "delete": "deleted"}.get(found["operationType"], "changed")
    key = str(found["documentKey"]["_id"])
    name, queue = _text(job.get("name")), _text(job.get("queue"))
    return Change(SCHEDULE, _place(found), truncate(found["wallTime"]), what, key, name, queue)


def _target_of(document: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return document.get("scope"), document.get("target"), document.get("queue")


def _place(found: Mapping[str, Any]) -> str:
    return str(found["_id"]["_data"])


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
