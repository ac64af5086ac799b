"""Decisions about schedules: the next fields of a stored schedule, the jobs and rows to make, and the writes that store
both.

Pure: nothing here reads the database or a clock. `store/schedules/firing.py` reads the schedules, stores the decisions
and carries them out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from pymongo import UpdateMany

from mainspring.model.jobs.job import FAILED
from mainspring.model.schedules.firing_plan import Make, Plan, Runs, late_row, plan, plan_after_end
from mainspring.model.schedules.ledger import MISSED, Row
from mainspring.model.schedules.schedule import SYSTEM
from mainspring.model.schedules.times import Times
from mainspring.rules.every import Every
from mainspring.store.connection import Document
from mainspring.store.schedules.codec import (
    decode_row,
    encode_make,
    encode_row,
    is_tracked,
    job_of,
    policy_of,
    runs_of,
)
from mainspring.store.schema import BY_ID

REVISIT = timedelta(seconds=1)
"""The time until a schedule is read again while a decision is not carried out, or a run is waited for."""
# The most schedules, jobs and rows that one statement stores: it must fit into a command.
_MOST_STORED = 4000
_MOST_WATCHED = 200


@dataclass(slots=True)
class Step:
    """A decision about one schedule: the fields that change in its document, and the jobs and rows to make."""

    schedule: Document
    fields: Document
    making: Document | None
    look_at: datetime | None
    paused: bool = False


def decide(schedule: Document, times: Times, ends: dict[str, Document], now: datetime) -> Step:
    """The decision about a schedule now."""
    going, fields = runs_of(schedule), Document()
    released = _review(schedule, going, ends, fields, now)
    if schedule.get("paused") is not None or "paused" in fields:
        fields |= _runs_fields(schedule, going)
        making = {"releases": released, "then": _later(going, now)} if released else None
        fields |= {"next_at": None, "due_at": None} if "paused" in fields else {}
        return Step(schedule, fields, making, _later(going, now), paused="paused" in fields)
    made, look_at = _plan(schedule, times, going, fields, now)
    fields |= _runs_fields(schedule, going)
    fields |= {"cursor": made.cursor, "next_at": made.next_at, "due_at": None}
    if made.next_at is not None:
        fields["due_at"] = times.due(made.next_at)
        look_at = fields["due_at"] if look_at is None else min(look_at, fields["due_at"])
    if made.makes:
        last = made.makes[-1]
        fields |= {"runs": schedule.get("runs", 0) + len(made.makes), "last": {"at": last.at, "job": last.job_id}}
    return Step(schedule, fields, _making(schedule["_id"], made, released, look_at), look_at)


def _plan(
    schedule: Document, times: Times, going: Runs, fields: Document, now: datetime
) -> tuple[Plan, datetime | None]:
    """The plan, and when to read the schedule again whatever its next firing is."""
    policy, runs = policy_of(schedule), schedule.get("runs", 0)
    cursor = fields.pop("cursor", schedule["cursor"])
    if schedule["rule"].get("after") != "end":
        made = plan(times, policy, cursor, runs, going, now)
        return made, _later(going, now)
    made = Plan(cursor, None) if going.live else plan_after_end(times, policy, cursor, runs, going, now)
    # The next firing is a period after the end: reading once a period is never too late.
    return made, now + cast(Every, times.rule).period if going.live else None


def _review(schedule: Document, going: Runs, ends: dict[str, Document], fields: Document, now: datetime) -> list[str]:
    """Note the runs that have ended: the runs that may start now, the number of failures, the end of the last run."""
    ended = [job for job in going.live if job in ends]
    going.live = [job for job in going.live if job not in ends]
    if ended and schedule["rule"].get("after") == "end":
        # Not before the cursor: the schedule may have been resumed since.
        fields["cursor"] = max(schedule["cursor"], *(ends[job].get("finished_at") or now for job in ended))
    _count_failures(schedule, [ends[job] for job in ended], fields, now)
    going.queued = [(job, after) for job, after in going.queued if job not in ends]
    released = []
    allowed = schedule.get("overlap", "allow") == "allow"  # the policy was changed after these runs were queued
    while going.queued and (allowed or not going.live):
        job, _ = going.queued.pop(0)
        going.live.append(job)
        released.append(job)
    return released


def _count_failures(schedule: Document, ends: Sequence[Document], fields: Document, now: datetime) -> None:
    limit = schedule.get("pause_after")
    if not limit or not ends:
        return
    failures = schedule.get("failures", 0)
    for end in ends:
        failures = failures + 1 if end["state"] == FAILED else 0
    fields["failures"] = failures
    if failures >= limit and schedule.get("paused") is None:
        why = (ends[-1].get("error") or {}).get("message") or "no message"
        reason = f"{failures} runs in a row have failed; the last one: {why[:500]}"
        fields["paused"] = {"at": now, "reason": reason, "actor": SYSTEM}


def _runs_fields(schedule: Document, going: Runs) -> Document:
    if not is_tracked(schedule):
        return {key: None for key in ("live", "queued") if key in schedule}
    queued = [{"job": job, "after": after} for job, after in going.queued]
    return {"live": going.live[-_MOST_WATCHED:] or None, "queued": queued or None}


def _later(going: Runs, now: datetime) -> datetime | None:
    """When to check whether a run that others wait for has ended."""
    return now + REVISIT if going.queued else None


def _making(schedule_id: str, made: Plan, released: list[str], look_at: datetime | None) -> Document | None:
    if not (made.makes or made.rows or made.cancels or released):
        return None
    making: Document = {
        "jobs": [encode_make(make) for make in made.makes],
        "rows": [encode_row(schedule_id, row) for row in made.rows],
        "cancels": list(made.cancels),
        "releases": released,
        "then": look_at,
    }
    return {key: value for key, value in making.items() if value}


def pause_broken(schedule: Document, why: str, now: datetime) -> Step:
    """Pause a schedule that cannot be read or fired, and store the reason with it.

    A decision that was stored with it and cannot be carried out is given up, since it would block every later change:
    its firings are noted as missed, and the parts of it that can be read are carried out.
    """
    fields: Document = {"paused": {"at": now, "reason": why[:600], "actor": SYSTEM}}
    fields |= {"next_at": None, "due_at": None}
    making = _given_up(schedule["_id"], schedule.get("making"))
    return Step(schedule, fields if making else {**fields, "making": None}, making, None, paused=True)


def _given_up(schedule_id: str, making: Any) -> Document | None:
    """The parts of a decision that can be carried out although the whole cannot."""
    if not isinstance(making, Mapping):
        return None
    makes = [make for make in _list(making, "jobs") if isinstance(make, Mapping)]
    firings = [make["at"] for make in makes if isinstance(make.get("at"), datetime)]
    rows = [encode_row(schedule_id, Row(at, at, MISSED, "its job could not be made")) for at in firings]
    waiting = [make["job"] for make in makes if "after" in make and isinstance(make.get("job"), str)]
    left: Document = {key: _texts(making, key) for key in ("cancels", "releases", "forgets")}
    left["releases"] += waiting
    return {key: value for key, value in {**left, "rows": rows}.items() if value} or None


def check_making(schedule: Document, making: Mapping[str, Any], now: datetime) -> None:
    """Raise where a decision cannot be carried out: once stored, it would block the schedule for ever."""
    for make in making.get("jobs", ()):
        job_of(schedule, make, now)
        late_row(Make(make["job"], make["at"], make["due"]), now)
    for row in making.get("rows", ()):
        decode_row(row)
        if row["schedule_id"] != schedule["_id"]:
            raise ValueError(f"the row {row['_id']!r} is of another schedule")
    for key in ("cancels", "releases", "forgets"):
        if _texts(making, key) != list(making.get(key) or ()):
            raise ValueError(f"{key} must be a list of ids")


def _list(making: Mapping[str, Any], key: str) -> list[Any]:
    value = making.get(key)
    return value if isinstance(value, list) else []


def _texts(making: Mapping[str, Any], key: str) -> list[str]:
    return [one for one in _list(making, key) if isinstance(one, str)]


def statements(steps: Sequence[Step], decision_id: str, now: datetime) -> list[UpdateMany]:
    """The writes that store decisions: one for many of one shape, since one for each costs three times as much."""
    alike: dict[tuple[frozenset[str], frozenset[str]], list[tuple[Step, Document]]] = defaultdict(list)
    for step in steps:
        put = {key: value for key, value in step.fields.items() if value is not None}
        drop = step.fields.keys() - put.keys()
        if step.making is not None:
            put |= {"making": step.making, "fire_at": now + REVISIT}
        elif step.look_at is not None:
            put["fire_at"] = step.look_at
        else:
            drop |= {"fire_at"}
        alike[frozenset(put), frozenset(drop)].append((step, put))
    return [
        _statement(chunk, put, drop, decision_id) for (put, drop), group in alike.items() for chunk in _chunks(group)
    ]


def _chunks(group: Sequence[tuple[Step, Document]]) -> Iterator[list[tuple[Step, Document]]]:
    """Parts of a group that are small enough for one statement each."""
    chunk: list[tuple[Step, Document]] = []
    size = 0
    for step, put in group:
        making = step.making or {}
        more = 1 + sum(len(making.get(key, ())) for key in ("jobs", "rows", "cancels", "releases"))
        if chunk and size + more > _MOST_STORED:
            yield chunk
            chunk, size = [], 0
        chunk.append((step, put))
        size += more
    yield chunk


def _statement(
    chunk: Sequence[tuple[Step, Document]], put: Iterable[str], drop: Iterable[str], decision_id: str
) -> UpdateMany:
    """One write for several decisions: the server looks up each schedule's by its id, and compares the schedule with
    what was read of it (see `unchanged`)."""
    ids = [step.schedule["_id"] for step, _ in chunk]
    place = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
    own = {"$arrayElemAt": [{"$literal": [fields for _, fields in chunk]}, place]}
    read = [[step.schedule.get("rev", 0), step.schedule.get("decision_id")] for step, _ in chunk]
    rev: Document = {"$ifNull": ["$rev", 0]}
    same = {"$eq": [[rev, {"$ifNull": ["$decision_id", None]}], {"$arrayElemAt": [{"$literal": read}, place]}]}
    changes: Document = {key: f"$own.{key}" for key in put} | dict.fromkeys(drop, "$$REMOVE")
    changes |= {"decision_id": decision_id, "rev": {"$add": [rev, 1]}, "own": "$$REMOVE"}
    return UpdateMany({"_id": {"$in": ids}, "$expr": same}, [{"$set": {"own": own}}, {"$set": changes}], hint=BY_ID)


def unchanged(document: Document) -> Document:
    """The filter for a schedule that is as it was read.

    `rev` rises with every write. `decision_id` differs for a schedule that was deleted and made again under its id.
    """
    as_read = {key: {"$eq": document.get(key)} for key in ("rev", "decision_id")}  # any stored value, as a literal
    return {"_id": document["_id"], **as_read}
