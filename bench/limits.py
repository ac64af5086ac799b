"""Draining under limits against draining without, in the same run; and beside a long line of jobs that must wait.

The limits are set above what the worker can run at once, so that only what they cost shows. The jobs that must wait
stand in the line of a limit whose only slot another worker has; those behind them are not limited.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from bson import ObjectId

from bench.app import LIMITED
from bench.beside import fill
from bench.drain import Drained, describe, drain
from bench.ground import Document, Ground, Place
from bench.options import Options
from bench.report import Bar, Row

_KINDS: dict[str, tuple[str, float | None]] = {
    "by-name": ("concurrency by name", 0.7),
    "by-key": ("concurrency by key, 1,000 keys", 0.5),
    "by-rate": ("rate by name", None),
    "in-turns": ("keys that take turns, 1,000 keys", None),
}
_LINE = "c:name:stuck"


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for draining under limits."""
    os.environ[LIMITED] = "1"
    try:
        return _measure(ground, options)
    finally:
        del os.environ[LIMITED]


def _measure(ground: Ground, options: Options) -> list[Row]:
    plain: list[Drained] = []
    limited: dict[str, list[Drained]] = {name: [] for name in _KINDS}
    for _ in range(options.repeat):
        with ground.place() as place:
            plain.append(drain(ground, place, 1, options))
        for name, results in limited.items():
            with ground.place() as place:
                results.append(drain(ground, place, 1, options, name))
    base = [result.rate for result in plain]
    rows = [
        _row(f"drain, {what}", limited[name], "drain without limits", base, None if bar is None else Bar("ratio", bar))
        for name, (what, bar) in _KINDS.items()
    ]
    return [*rows, _beside_line(ground, options)]


def _beside_line(ground: Ground, options: Options) -> Row:
    alone: list[Drained] = []
    beside: list[Drained] = []
    with ground.place() as quiet, ground.place() as crowded:
        fill(crowded, options.in_line, waiting_job)
        _occupy(crowded)
        for _ in range(options.repeat):
            alone.append(drain(ground, quiet, 1, options))
            beside.append(drain(ground, crowded, 1, options))
    name = f"drain behind {options.in_line:,} jobs that wait in line"
    return _row(name, beside, "drain alone", [result.rate for result in alone], Bar("ratio", 0.9))


def waiting_job(template: Document, now: datetime) -> Document:
    """A job that is due, more urgent than those measured, and waits for a slot."""
    held = {"by": "limit", "note": "1 job at once is allowed, and it is running.", "since": now}
    document = {**template, "_id": ObjectId(), "name": "stuck", "priority": 1, "line": _LINE, "waiting_for": held}
    del document["ready"]
    return document


def _occupy(place: Place) -> None:
    """Let a worker elsewhere have the only slot."""
    far = place.now() + timedelta(days=1)
    database = place.jobs.database
    worker: Document = {"_id": "elsewhere", "queues": ["elsewhere"], "handlers": ["stuck"], "concurrency": 1}
    database["jobs.workers"].insert_one({**worker, "running": 1, "beat_at": far, "lease_until": far})
    grants = [{"w": "elsewhere", "n": 1}]
    database["jobs.gates"].insert_one(
        {"_id": _LINE, "grants": grants, "full": True, "limit": 1, "line": True, "rev": 1}
    )


def _row(name: str, results: list[Drained], floor_name: str, floor: list[float], bar: Bar | None) -> Row:
    row = Row(name, "jobs/s", [result.rate for result in results], floor_name, floor, bar)
    row.note = describe(results)
    row.details["runs"] = [vars(result) for result in results]
    return row
