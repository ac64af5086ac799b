"""The definitions of the indexes. `store/schema.py` has their names, `store/indexes.py` creates those that are missing.

An index is partial where it can be, has its reason beside it, and a query that hints it by name.
"""

from __future__ import annotations

from pymongo import ASCENDING, DESCENDING, IndexModel

from mainspring.config.field_map import FieldMap
from mainspring.model.jobs.job import BLOCKED, FAILED, FINISHED, PENDING, RUNNING
from mainspring.store.schema import (
    AUDIT_ACTOR,
    AUDIT_TARGET,
    BADLY_ENDED,
    BEAT_AT,
    BEFORE,
    BEFORE_BADLY,
    BROKEN,
    BY_FAIRNESS,
    CALENDARS,
    CANCEL,
    CHECK,
    CLAIM,
    COUNTED,
    CREATED,
    DEAD,
    DECLARED,
    DUE,
    FAILURES,
    FINISHED_INDEX,
    FIRINGS,
    FLOW,
    FLOW_ENDED,
    GOING,
    GROUPED,
    HANDLERS,
    HOLDERS,
    KEPT_BY_NAME,
    KEPT_BY_QUEUE,
    LEASE,
    LINE,
    LIVE,
    NOT_ENDED,
    OLD,
    OPEN,
    OPEN_OPERATIONS,
    PAUSED_SCHEDULES,
    RAW,
    REPLIES_KEPT,
    ROOTS,
    SCHEDULE,
    SEALED,
    SENT,
    SEQ,
    SIGNALS,
    SPANS,
    START_BY,
    STARTED,
    UNDER_WAY,
    UNUSED,
    WAITING_BY_QUEUE,
    WAITING_FOR,
    ZONES,
    mapped_index,
    mapped_inserts_index,
)


def _partial(name: str, filter: dict[str, object], *keys: str) -> IndexModel:
    return IndexModel([(key, ASCENDING) for key in keys], name=name, partialFilterExpression=filter)


# A pending job is in `claim` only, a running one in `lease` only, a finished one in `finished` only: a transition
# leaves one index and enters one other. The rest hold the few documents that concern them and are empty otherwise.
JOB_INDEXES = [
    _partial(CLAIM, {"ready": True}, "ready", "queue", "priority", "run_at", "_id"),
    _partial(LEASE, {"state": RUNNING}, "state", "lease_until"),
    _partial(FINISHED_INDEX, {"state": {"$in": list(FINISHED)}}, "state", "finished_at"),
    _partial(RAW, {"v": None}, "v", "state", "name"),
    _partial(START_BY, {"state": PENDING, "start_by": {"$type": "date"}}, "start_by"),
    _partial(CANCEL, {"state": RUNNING, "cancel": {"$exists": True}}, "worker"),
    _partial(WAITING_FOR, {"waiting_for.by": {"$exists": True}}, "waiting_for.by", "name", "line"),
    _partial(WAITING_BY_QUEUE, {"waiting_for.by": {"$exists": True}}, "queue", "waiting_for.by", "run_at"),
    _partial(SCHEDULE, {"schedule_id": {"$exists": True}}, "schedule_id", "scheduled_for"),
    _partial(LINE, {"line": {"$exists": True}}, "line", "priority", "run_at", "_id"),
    # A job that waits for others keeps its place in its sequence.
    _partial(SEQ, {"seq": {"$exists": True}, "state": {"$in": [*LIVE, BLOCKED, FAILED]}}, "seq", "created_at", "_id"),
    _partial(GOING, {"seq": {"$exists": True}, "state": RUNNING}, "seq"),
    _partial(DEAD, {"state": FAILED}, "state", "finished_at", "_id", "fingerprint"),
    # Without it, a group among a million dead letters is found, counted and listed only by a walk over all of them.
    _partial(GROUPED, {"state": FAILED}, "state", "fingerprint", "finished_at", "_id"),
    _partial(SEALED, {"sealed": {"$exists": True}}, "sealed", "_id"),
    _partial(FAILURES, {"last_failure_at": {"$exists": True}}, "last_failure_at", "_id"),
    # Live predecessors; the state is not in the key, so that a claim does not write it. Jobs are claimed oldest first,
    # so that live ones are at the end: with the ids descending, a look for one does not step over the entries of those
    # that have just ended.
    IndexModel(
        [("before", ASCENDING), ("_id", DESCENDING)],
        name=BEFORE,
        partialFilterExpression={"before": {"$exists": True}, "state": {"$in": list(NOT_ENDED)}},
    ),
    _partial(BEFORE_BADLY, {"before": {"$exists": True}, "state": {"$in": list(BADLY_ENDED)}}, "before", "_id"),
    _partial(CHECK, {"check_at": {"$exists": True}}, "check_at"),
    # The members of a flow, live and ended ones. Without the state in the key of the first, a claim writes neither.
    _partial(FLOW, {"flow": {"$exists": True}, "state": {"$in": list(NOT_ENDED)}}, "flow", "node", "_id"),
    _partial(FLOW_ENDED, {"flow": {"$exists": True}, "state": {"$in": list(FINISHED)}}, "flow", "state", "node", "_id"),
    _partial(ROOTS, {"root": True}, "root", "created_at", "_id"),
]
# The keys of these indexes that are arrays. An array in any other key comes from another program, and harms the index
# until it is dropped: it cannot sort any more.
ARRAY_KEYS = frozenset({"before", "sealed"})
SIGNAL_INDEXES = [
    IndexModel([("job", ASCENDING), ("name", ASCENDING), ("at", ASCENDING)], name=SIGNALS),
    IndexModel([("at", ASCENDING)], name=SENT),
]
# The filter of the index `seq` in schema version 1: it lacked blocked jobs. Such an index is replaced.
EARLIER_FILTERS: dict[str, list[dict[str, object]]] = {
    SEQ: [{"seq": {"$exists": True}, "state": {"$in": [*LIVE, FAILED]}}]
}
# The keys that indexes of these names had before. Such an index is replaced.
EARLIER_KEYS: dict[str, list[str]] = {
    WAITING_BY_QUEUE: ["queue", "waiting_for.by"],
    FLOW: ["flow", "state", "node", "_id"],
}
# The indexes that only workers of schema version 1 need, of jobs and of gates: a migration drops them at its end.
EARLIER_INDEXES = {"": ("held", "waiting", "raw"), "gates": ("open",)}
REDRIVE_INDEXES = [
    _partial(UNDER_WAY, {"state": "running"}, "state", "started_at"),
    IndexModel([("started_at", ASCENDING)], name=STARTED),
]
# Looking for something to do reads the first alone, which is empty unless an operation is under way.
OPERATION_INDEXES = [
    _partial(OPEN_OPERATIONS, {"open": True}, "open", "starts_at"),
    IndexModel([("created_at", ASCENDING), ("_id", ASCENDING)], name=CREATED),
]
# Made only where a rule of retention is about a name or a queue: every finished job is in them.
RETENTION_INDEXES = [
    _partial(KEPT_BY_NAME, {"state": {"$in": list(FINISHED)}}, "name", "state", "finished_at"),
    _partial(KEPT_BY_QUEUE, {"state": {"$in": list(FINISHED)}}, "queue", "state", "finished_at"),
]


def map_indexes(map: FieldMap) -> list[IndexModel]:
    """The indexes of jobs that only a field map needs."""
    return [
        _partial(mapped_index(map), {"mapped": {"$exists": True}}, "state", map.status),
        _partial(mapped_inserts_index(map), {"v": None}, "v", map.status, map.name),
    ]


KEY_INDEXES = [IndexModel([("at", ASCENDING)], name="at")]
WORKER_INDEXES = [
    IndexModel([("beat_at", ASCENDING)], name=BEAT_AT),
    IndexModel([("handlers", ASCENDING), ("beat_at", ASCENDING)], name=HANDLERS),
]
GATE_INDEXES = [
    _partial(OPEN, {"open_at": {"$type": "date"}}, "open_at", "_id"),
    IndexModel([("grants.w", ASCENDING)], name=HOLDERS),
    IndexModel([("keep_until", ASCENDING)], name=UNUSED),
    _partial(BY_FAIRNESS, {"group": {"$exists": True}, "line": True}, "group", "first", "served"),
]
# The search for due schedules reads the first alone, so that its cost does not grow with the number of schedules.
SCHEDULE_INDEXES = [
    _partial(DUE, {"fire_at": {"$type": "date"}}, "fire_at", "_id"),
    _partial(CALENDARS, {"calendars.name": {"$exists": True}}, "calendars.name"),
    _partial(ZONES, {"zones": {"$exists": True}}, "zones"),
    _partial(DECLARED, {"declared.app": {"$exists": True}}, "declared.app"),
    IndexModel([("created_at", ASCENDING), ("_id", ASCENDING)], name=CREATED),
    # The overview lists paused schedules without reading the others.
    _partial(PAUSED_SCHEDULES, {"paused.at": {"$exists": True}}, "paused.at"),
]
# A breaker with a key has a document for each value; the overview reads those that hold jobs back, not the closed ones.
CONTROL_INDEXES = [_partial(BROKEN, {"state": {"$in": ["open", "half_open"]}}, "state", "since")]
REPLY_INDEXES = [IndexModel([("at", ASCENDING)], name="at", expireAfterSeconds=REPLIES_KEPT)]
# A session that is over is refused without a read of this collection; clocks may differ a little.
SESSION_INDEXES = [IndexModel([("until", ASCENDING)], name="until", expireAfterSeconds=600)]
AUDIT_INDEXES = [
    IndexModel([("actor", ASCENDING), ("_id", ASCENDING)], name=AUDIT_ACTOR),
    IndexModel([("target", ASCENDING), ("_id", ASCENDING)], name=AUDIT_TARGET),
]
LEDGER_INDEXES = [
    IndexModel([("schedule_id", ASCENDING), ("until", ASCENDING)], name=FIRINGS),
    _partial(SPANS, {"span": True}, "schedule_id", "until"),
    IndexModel([("until", ASCENDING)], name=OLD),
]
STAT_INDEXES = [IndexModel([("_id.per", ASCENDING), ("_id.at", ASCENDING)], name=COUNTED)]
