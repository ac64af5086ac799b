"""Draining beside a million finished jobs that are being pruned, against draining alone.

The jobs have been kept longer than they should be, so that the worker that drains has them to delete from its first
moment to its last. They ended at times spread evenly over some days: how far the pruner has come tells how many it has
deleted, without counting them while something is measured.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from bson import ObjectId

from bench.beside import fill
from bench.drain import Drained, describe, drain
from bench.ground import Document, Ground, Place
from bench.options import Options
from bench.report import Bar, Row
from mainspring.clock import EPOCH
from mainspring.config.settings import Settings
from mainspring.model.jobs.job import COMPLETED
from mainspring.store.schema import FINISHED_INDEX

_SPAN = timedelta(days=3)
_KEPT = timedelta(seconds=Settings().keep_finished or 0.0)


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for draining beside pruning."""
    alone: list[Drained] = []
    beside: list[Drained] = []
    with ground.place() as quiet, ground.place() as full:
        fill(full, options.prunable, old_job)
        for _ in range(options.repeat):
            alone.append(drain(ground, quiet, 1, options))
            beside.append(drain(ground, full, 1, options, meter=lambda: _gone(full, options.prunable)))
    return [_rate(alone, beside, options), _pruned(beside)]


def old_job(template: Document, now: datetime) -> Document:
    """A job that was completed some days before those that are kept, with its attempt."""
    ended = now - _KEPT - timedelta(minutes=1) - random.random() * _SPAN
    attempt = {"n": 1, "token": 1, "outcome": COMPLETED, "worker": "past", "started_at": ended, "ended_at": ended}
    document = {**template, "_id": ObjectId(), "run_at": ended, "created_at": ended, "state": COMPLETED, "rev": 2}
    document |= {"token": 1, "tries": 1, "max_attempts": 3, "finished_at": ended, "result": None, "attempts": [attempt]}
    del document["ready"]
    return document


def _gone(place: Place, stored: int) -> float:
    """How many of the old jobs are gone, by the oldest that is left; only the difference of two such numbers counts."""
    order = [("state", 1), ("finished_at", 1)]
    oldest = place.jobs.find_one({"state": COMPLETED}, {"finished_at": 1}, sort=order, hint=FINISHED_INDEX)
    ended = place.now() if oldest is None else oldest["finished_at"].replace(tzinfo=UTC)
    if ended > place.now() - _KEPT:
        raise RuntimeError(f"{stored:,} jobs are too few: all of them have been pruned")
    return stored * ((ended - EPOCH) / _SPAN)


def _rate(alone: list[Drained], beside: list[Drained], options: Options) -> Row:
    name = f"drain beside {options.prunable:,} jobs being pruned"
    floor = [result.rate for result in alone]
    row = Row(name, "jobs/s", [result.rate for result in beside], "drain alone", floor, Bar("ratio", 0.9))
    row.note = describe(beside)
    row.details["runs"] = [vars(result) for result in beside]
    return row


def _pruned(beside: list[Drained]) -> Row:
    return Row("pruned meanwhile", "jobs/s", [result.metered / result.wall for result in beside])
