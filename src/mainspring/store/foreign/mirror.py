"""The other program's fields of an adopted job, kept in step with Mainspring's.

Every verb that moves a job passes its filter and its update through `Mirror.update`. Keeps true, where
there is a field map: a job that was adopted through it (it has `mapped`) is moved only while its `status`, `locked_by`
and `locked_at` have the values that Mainspring wrote last, and the same update writes their next values. So Mainspring
cannot overrule another program that uses compare-and-set on its own fields, and its readers see each move as it is
made.

`mapped` notes the `state` and `worker` that the fields were last written for, and the other program's due time that the
job's own was taken from (`at`). By that, `store/foreign/mapped.py` can tell which side has moved when they differ.

Without a field map nothing is added to anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from mainspring.config.field_map import FieldMap
from mainspring.model.jobs.job import BLOCKED, PENDING, RUNNING
from mainspring.store.schema import Document

Stage = dict[str, Any]


class Mirror:
    """The additions of a field map to the filters and updates of jobs."""

    def __init__(self, map: FieldMap | None) -> None:
        self.map = map
        self._in_step: Stage = {} if map is None else _in_step(map)

    def guard(self, filter: Document) -> Document:
        """The filter for a write to jobs, which an adopted job passes only while both sides are in step."""
        if self.map is None:
            return filter
        if "$expr" in filter:
            return {**filter, "$expr": {"$and": [filter["$expr"], self._in_step]}}
        return {**filter, "$expr": self._in_step}

    def stages(self, stages: list[Stage], renewed: Any = None) -> list[Stage]:
        """The update, with a stage for the other program's fields; `renewed` is now, where a lease begins anew."""
        return stages if self.map is None else [*stages, _mirrored(self.map, renewed)]

    def update(self, filter: Document, stages: list[Stage], renewed: Any = None) -> tuple[Document, list[Stage]]:
        """The guarded filter and the extended update, for a write that moves jobs."""
        return self.guard(filter), self.stages(stages, renewed)

    @property
    def fields(self) -> dict[str, int]:
        """The projection that `out_of_step` needs."""
        if self.map is None:
            return {}
        theirs = (self.map.status, self.map.locked_by, self.map.locked_at, self.map.run_at)
        return dict.fromkeys((*theirs, "mapped", "state", "worker", "claim", "lease_until"), 1)

    def out_of_step(self, document: Mapping[str, Any]) -> bool:
        """Whether an adopted job is not as Mainspring has left it: the condition of `guard`, for a document as read."""
        if self.map is None or "mapped" not in document:
            return False
        state = document.get("state")
        if document.get(self.map.status) != word_of(self.map, state):
            return True
        if state == PENDING:
            mapped = document["mapped"]
            return bool(document.get(self.map.run_at) != (mapped.get("at") if isinstance(mapped, Mapping) else None))
        if state != RUNNING:
            return False
        if document.get(self.map.locked_by) != document.get("worker"):
            return True
        return "claim" not in document and document.get("lease_until") != lock_end(self.map, document)


def word_of(map: FieldMap, state: Any) -> str | None:
    """The other program's word for a state; a blocked job is pending to it."""
    return map.words.get(PENDING if state == BLOCKED else state)


def lock_end(map: FieldMap, document: Mapping[str, Any]) -> datetime | None:
    """The end of a lock of the other program; None where the lock has no beginning."""
    since = document.get(map.locked_at)
    return since + timedelta(seconds=map.takeover) if isinstance(since, datetime) else None


def lock_end_expression(map: FieldMap) -> Stage:
    """The end of a lock of the other program, as an expression."""
    since = f"${map.locked_at}"
    return {
        "$cond": [{"$eq": [{"$type": since}, "date"]}, {"$add": [since, int(map.takeover * 1000)]}, None],
    }


def _word(map: FieldMap) -> Stage:
    branches = [
        {"case": {"$eq": ["$state", state]}, "then": {"$literal": word_of(map, state)}}
        for state in (*map.words, BLOCKED)
    ]
    return {"$switch": {"branches": branches, "default": f"${map.status}"}}


def _in_step(map: FieldMap) -> Stage:
    holder = {"$eq": [_or_null(f"${map.locked_by}"), _or_null("$worker")]}
    claimed = {"$ne": [{"$type": "$claim"}, "missing"]}
    as_locked = {"$eq": [_or_null("$lease_until"), lock_end_expression(map)]}
    held = {"$and": [holder, {"$or": [claimed, as_locked]}]}
    due = {"$eq": [_or_null(f"${map.run_at}"), _or_null("$mapped.at")]}
    return {
        "$or": [
            {"$not": ["$mapped"]},
            {
                "$and": [
                    {"$eq": [f"${map.status}", _word(map)]},
                    {"$or": [{"$ne": ["$state", RUNNING]}, held]},
                    {"$or": [{"$ne": ["$state", PENDING]}, due]},
                ]
            },
        ]
    }


def _mirrored(map: FieldMap, renewed: Any) -> Stage:
    """The last stage of an update: the other program's fields as they follow from Mainspring's."""
    is_running, is_pending = {"$eq": ["$state", RUNNING]}, {"$in": ["$state", [PENDING, BLOCKED]]}
    status, by, at = f"${map.status}", f"${map.locked_by}", f"${map.locked_at}"

    def of_adopted(value: Any, otherwise: Any) -> Stage:
        return {"$cond": ["$mapped", value, otherwise]}

    def while_running(value: Any, otherwise: Any) -> Stage:
        # Afterwards the fields keep the last worker of the job, and its time.
        return {"$cond": [is_running, value, {"$cond": [is_pending, None, otherwise]}]}

    note = {"state": "$state", "worker": _or_null("$worker")}
    return {
        "$set": {
            map.status: of_adopted(_word(map), status),
            map.locked_by: of_adopted(while_running(_or_null("$worker"), by), by),
            map.locked_at: of_adopted(while_running(at if renewed is None else renewed, at), at),
            "mapped": of_adopted({"$mergeObjects": ["$mapped", note]}, "$$REMOVE"),
        }
    }


def _or_null(field: str) -> Stage:
    return {"$ifNull": [field, None]}
