"""Replays every write to every job in the order of the database, and holds each against the promises of flows.

The change stream gives the one order in which the writes took place, so that the state of all jobs at the moment of a
release is known exactly, whatever the processes saw that took part.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pymongo import MongoClient
from pymongo.write_concern import WriteConcern

from mainspring.store.flows.checks import FAST

Document = dict[str, Any]

LIVE = ("pending", "running", "blocked")
BAD = ("failed", "cancelled", "expired")
_CLAIM = ("claim", "worker", "lease_until", "ready")
_FOLLOWED = ("state", "before", "waits", "error", "because", "cancel", "token", *_CLAIM)
_MOVES = {
    (None, "pending"),
    (None, "blocked"),
    ("pending", "running"),
    ("pending", "cancelled"),
    ("running", "pending"),
    ("running", "blocked"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("blocked", "pending"),
    ("blocked", "cancelled"),
}
_REVIVALS = {("failed", "pending"), ("cancelled", "pending"), ("cancelled", "blocked")}
_BY_HAND = {("completed", "pending"), ("expired", "pending")}
_LATE = {("pending", "expired"), ("pending", "failed")}


class Recording:
    """The writes to the jobs of one database since this was made."""

    def __init__(self, uri: str) -> None:
        self._client: MongoClient[Document] = MongoClient(uri, tz_aware=True, timeoutMS=60_000)
        self._db = self._client.get_default_database()
        self._marks = self._db.get_collection("marks", write_concern=WriteConcern("majority"))
        self._marks.insert_one({"_id": "first"})
        self._since = self._client.admin.command("ping")["operationTime"]

    def close(self) -> None:
        self._client.close()

    def live(self) -> int:
        """How many jobs have not ended."""
        return self._db["jobs"].count_documents({"state": {"$in": list(LIVE)}}, hint="_id_")

    def listening(self) -> list[Document]:
        """The jobs that wait for signals now."""
        waiting = {"state": "blocked", "waits.signals.0": {"$exists": True}}
        return self._db["jobs"].find(waiting, {"data": 1, "round": 1}, hint="_id_").to_list()

    def left(self) -> list[str]:
        """The live jobs, the limits and the workers, in words."""
        live = self._db["jobs"].find({"state": {"$in": list(LIVE)}}, {"data": 0}, hint="_id_")
        around = [self._db[f"jobs.{name}"].find({}, hint="_id_") for name in ("gates", "workers")]
        return [str(document) for cursor in (live, *around) for document in cursor]

    def events(self) -> Iterator[Document]:
        """All writes from then to now, in order."""
        mark = secrets.token_hex(8)
        self._marks.insert_one({"_id": mark})
        wanted = {"operationType": {"$in": ["insert", "update", "replace", "delete"]}}
        wanted["ns.coll"] = {"$in": ["jobs", "marks"]}
        with self._db.watch([{"$match": wanted}], start_at_operation_time=self._since, batch_size=5000) as stream:
            for event in stream:
                if event["documentKey"]["_id"] == mark:
                    return
                if event["ns"]["coll"] == "jobs":
                    yield event
        raise AssertionError("the change stream ended before its end")


class Replay:
    """The jobs as they were after each write, and the promises that a write has broken."""

    def __init__(self, *, by_hand: bool = False) -> None:
        """`by_hand`: single jobs are retried too, and some have to start in time."""
        self._moves = _MOVES | (_LATE if by_hand else set())
        self._revivals = _REVIVALS | (_BY_HAND if by_hand else set())
        self.jobs: dict[str, Document] = {}
        self.writes: Counter[str] = Counter()
        self.releases: dict[tuple[str, str], int] = {}
        """The waits that a job was started again after, and how often it and its predecessors had been put back."""
        self.revived: Counter[str] = Counter()
        """How often an ended job was put back."""
        self.broken: list[str] = []
        self._holders: dict[str, set[str]] = defaultdict(set)

    def run(self, events: Iterator[Document]) -> None:
        for event in events:
            job = str(event["documentKey"]["_id"])
            old = self.jobs.get(job)
            new = _after(old, event)
            self.writes[job] += 1
            if new is None:
                self.broken.append(f"{job} was deleted")
                continue
            self.jobs[job] = new
            for wait in new.get("before") or ():
                self._holders[wait].add(job)
            self.broken += self._judge(job, old or {}, new, event["wallTime"])

    def _judge(self, job: str, old: Document, new: Document, at: datetime) -> Iterator[str]:
        move = old.get("state"), new["state"]
        if move[0] == move[1]:
            return
        if move in self._revivals:
            self.revived[job] += 1
        elif move not in self._moves:
            yield f"{job} went from {move[0]} to {move[1]}"
        if move[1] == "blocked":
            yield from self._judge_block(job, new)
        if move == ("blocked", "pending"):
            yield from self._judge_release(job, old, at)
        if move == ("blocked", "cancelled") and new.get("because") and not _is_fast(old) and not _of_a_failed_map(new):
            yield from (f"{job} was ended by a check while {one} was live" for one in self._live(old))

    @staticmethod
    def _judge_block(job: str, new: Document) -> Iterator[str]:
        kept = [key for key in _CLAIM if new.get(key) is not None]
        if kept:
            yield f"{job} was suspended and kept {kept}"
        if not (new.get("waits") or {}).get("ids") and not _has_other_ways(new["waits"]):
            yield f"{job} was suspended and waits for nothing"

    def _judge_release(self, job: str, old: Document, at: datetime) -> Iterator[str]:
        waits = old["waits"]
        if waits.get("sealed") is not True:
            yield f"{job} was released before its waits were sealed"
        if not _has_other_ways(waits):
            # A failed map with fail_fast releases a handler that waits for others, too; it is suspended for them again.
            for wait in (one for one in waits["ids"] if self._is_over(one)):
                put_back = self.revived[job] + sum(self.revived[one] for one in self._holders[wait])
                if self.releases.get((job, wait), -1) == put_back:
                    yield f"{job} was released twice from {wait}"
                self.releases[job, wait] = put_back
            yield from self._judge_ends(job, waits)

    def _is_over(self, wait: str) -> bool:
        return all(self.jobs[one]["state"] not in LIVE for one in self._holders[wait])

    def _judge_ends(self, job: str, waits: Mapping[str, Any]) -> Iterator[str]:
        for place, wait in enumerate(waits["ids"]):
            held = self._holders[wait]
            if len(held) < waits["total"][place] and not waits.get("aborted"):
                yield f"{job} was released from {wait} with {len(held)} of {waits['total'][place]} predecessors stored"
            bad = sum(self.jobs[one]["state"] in BAD for one in held)
            if waits["fail_fast"][place] and bad > waits["tolerate"][place]:
                return
        yield from (
            f"{job} was released while {one} was {self.jobs[one]['state']}" for one in self._live({"waits": waits})
        )

    def _live(self, waiter: Mapping[str, Any]) -> list[str]:
        """The live predecessors of a job, but for those that a retry has put back."""
        held = {one for wait in (waiter.get("waits") or {}).get("ids") or () for one in self._holders[wait]}
        return sorted(one for one in held if self.jobs[one]["state"] in LIVE and not self.revived[one])

    def at_the_end(self) -> Iterator[str]:
        """The promise about the end: no job is left."""
        for job, document in self.jobs.items():
            if document["state"] in LIVE:
                yield f"{job} is still {document['state']}: {document.get('waits')}"


def _has_other_ways(waits: Mapping[str, Any]) -> bool:
    return bool(waits.get("signals") or waits.get("until"))


def _is_fast(document: Mapping[str, Any]) -> bool:
    return any((document.get("waits") or {}).get("fail_fast") or ())


def _of_a_failed_map(document: Mapping[str, Any]) -> bool:
    """Whether a job was cancelled since too many of its siblings have failed: then its own children may be live."""
    return bool((document.get("error") or {}).get("message") == FAST)


def _after(old: Document | None, event: Document) -> Document | None:
    if event["operationType"] == "delete":
        return None
    if event["operationType"] != "update":
        return {key: value for key, value in event["fullDocument"].items() if key in _FOLLOWED}
    new: Document = _copied(old or {})
    told = event["updateDescription"]
    for cut in told.get("truncatedArrays") or ():
        if _top(cut["field"]) in _FOLLOWED:
            del _reach(new, cut["field"].split("."))[cut["newSize"] :]
    for path, value in told["updatedFields"].items():
        if _top(path) in _FOLLOWED:
            *way, last = path.split(".")
            _put(_reach(new, way), last, value)
    for path in told["removedFields"]:
        if _top(path) in _FOLLOWED:
            *way, last = path.split(".")
            _reach(new, way).pop(last, None)
    return new


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _top(path: str) -> str:
    return path.partition(".")[0]


def _reach(value: Any, way: list[str]) -> Any:
    for step in way:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def _put(holder: Any, key: str, value: Any) -> None:
    if not isinstance(holder, list):
        holder[key] = value
    elif int(key) == len(holder):
        holder.append(value)
    else:
        holder[int(key)] = value
