"""Draining beside a million jobs that are due later, and beside a million that have ended, against draining alone."""

from __future__ import annotations

import multiprocessing
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta

from bson import ObjectId
from pymongo import MongoClient, WriteConcern

from bench.drain import Drained, describe, drain
from bench.ground import CHUNK, Document, Ground, Place
from bench.options import Options
from bench.report import Bar, Row
from mainspring.model.jobs.job import COMPLETED

_LOADERS = 2
_DAYS = 3


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for draining among many others."""
    results: dict[str, list[Drained]] = {"alone": [], "future": [], "finished": []}
    with ExitStack() as stack:
        places = {kind: stack.enter_context(ground.place()) for kind in results}
        fill(places["future"], options.others, future_job)
        fill(places["finished"], options.others, finished_job)
        for turn in range(options.repeat):
            # Each in turn goes first, so that none has always the same neighbour.
            kinds = deque(places)
            kinds.rotate(turn)
            for kind in kinds:
                results[kind].append(drain(ground, places[kind], 1, options))
    alone = [result.rate for result in results["alone"]]
    return [
        _row(f"drain beside {options.others:,} {kind} jobs", results[kind], alone) for kind in ("future", "finished")
    ]


def _row(name: str, results: list[Drained], alone: list[float]) -> Row:
    row = Row(name, "jobs/s", [result.rate for result in results], "drain alone", alone, Bar("ratio", 0.9))
    row.note = describe(results)
    row.details["runs"] = [vars(result) for result in results]
    return row


def fill(place: Place, count: int, make: Callable[[Document, datetime], Document]) -> None:
    """Store many jobs fast: from two processes, and without waiting for the journal."""
    template = place.documents(1)[0]
    share = count // _LOADERS
    with ProcessPoolExecutor(_LOADERS, multiprocessing.get_context("spawn")) as pool:
        loads = [pool.submit(_load, place.uri, place.name, template, share, make) for _ in range(_LOADERS)]
        for load in loads:
            load.result()


def _load(
    uri: str, database: str, template: Document, count: int, make: Callable[[Document, datetime], Document]
) -> None:
    now: datetime = template["created_at"]
    with MongoClient[Document](uri) as client:
        jobs = client[database].get_collection("jobs", write_concern=WriteConcern(1, j=False))
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            jobs.insert_many([make(template, now) for _ in range(size)], ordered=False)


def future_job(template: Document, now: datetime) -> Document:
    """A job that is due between tomorrow and three days later, of any priority."""
    run_at = now + timedelta(days=1, seconds=random.randrange(_DAYS * 86400))
    return {**template, "_id": ObjectId(), "run_at": run_at, "priority": random.randint(1, 10)}


def finished_job(template: Document, now: datetime) -> Document:
    """A job that was completed within the last three days, with its attempt."""
    ended = now - timedelta(seconds=random.randrange(1, _DAYS * 86400))
    attempt = {"n": 1, "token": 1, "outcome": COMPLETED, "worker": "past", "started_at": ended, "ended_at": ended}
    document = {**template, "_id": ObjectId(), "run_at": ended, "created_at": ended, "state": COMPLETED, "rev": 2}
    document |= {"token": 1, "tries": 1, "max_attempts": 3, "finished_at": ended, "result": None, "attempts": [attempt]}
    del document["ready"]
    return document
