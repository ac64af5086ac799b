"""The raw floor: the same writes with no scheduler around them, one after the other, from one blocking client.

The statements are the product's own (its claim, its completion with the attempt kept), so that the difference to what
a worker reaches is the scheduler and nothing else.
"""

from __future__ import annotations

import secrets
import time
from datetime import datetime
from typing import Any

from bench.ground import CHUNK, Document, Place
from mainspring.model.jobs.job import DEFAULT_QUEUE, RUNNING
from mainspring.model.jobs.outcome import Completed
from mainspring.store.jobs.claim import ORDER, UNREAD, taking_stage
from mainspring.store.jobs.end_fields import Finish, finish_stage
from mainspring.store.schema import CLAIM

NOW = "$$NOW"
BATCHES = (500, 1000)
_WORKER = "floor:1:00000000"
_LEASE, _ATTEMPTS = 60.0, 3


def insert_rate(place: Place, documents: list[Document]) -> float:
    """Documents a second by `insert_many` of a thousand at a time."""
    started = time.perf_counter()
    for start in range(0, len(documents), CHUNK):
        place.jobs.insert_many(documents[start : start + CHUNK], ordered=False)
    return len(documents) / (time.perf_counter() - started)


def insert_one_rate(place: Place, documents: list[Document]) -> float:
    """Documents a second by `insert_one`, one after the other."""
    started = time.perf_counter()
    for document in documents:
        place.jobs.insert_one(document)
    return len(documents) / (time.perf_counter() - started)


def life_rate(place: Place, count: int, batch: int) -> float:
    """Jobs a second through their whole life: find, claim, complete with the attempt kept."""
    started = time.perf_counter()
    done = 0
    while done < count:
        ids = take(place, min(batch, count - done))
        complete(place, ids)
        done += len(ids)
    return count / (time.perf_counter() - started)


def take(place: Place, limit: int) -> list[Any]:
    """Find due jobs and claim them."""
    due = {"ready": True, "queue": DEFAULT_QUEUE, "$expr": {"$lte": ["$run_at", NOW]}}
    found = list(place.jobs.find(due, UNREAD, sort=ORDER, hint=CLAIM, limit=limit, batch_size=limit))
    ids = [document["_id"] for document in found]
    stage = taking_stage(NOW, secrets.token_hex(8), _WORKER, _LEASE, _ATTEMPTS)
    taken = place.jobs.update_many({"_id": {"$in": ids}, "ready": True, "rev": 0}, stage)
    if not ids or taken.modified_count != len(ids):
        raise RuntimeError(f"the floor claimed {taken.modified_count} of {len(ids)} jobs, which it has to itself")
    return ids


def complete(place: Place, ids: list[Any]) -> None:
    """Complete claimed jobs with one statement."""
    moment: datetime = place.now()
    finish = Finish(ids[0], 1, 1, _WORKER, moment, moment, Completed())
    filter = {"_id": {"$in": ids}, "state": RUNNING, "token": 1}
    ended = place.jobs.update_many(filter, finish_stage(finish, NOW))
    if ended.modified_count != len(ids):
        raise RuntimeError(f"the floor completed {ended.modified_count} of {len(ids)} jobs, which it has to itself")
