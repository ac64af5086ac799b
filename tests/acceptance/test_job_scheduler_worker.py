"""The worker for jobs in another program's fields: the example as it is, and the same by options of the command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pymongo.uri_parser import parse_uri

from harness.commands import Command
from harness.looking import Database
from harness.waiting import eventually

Start = Callable[..., Command]
Document = dict[str, Any]
ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, "-X", "dev", "-W", "error")


def documents() -> list[Document]:
    """One of each kind, as the other program has left or inserted them."""
    now = datetime.now(UTC)
    base = {
        "scheduler_id": str(uuid4()),
        "created_at": now - timedelta(hours=1),
        "trigger_time": now - timedelta(minutes=1),
        "locked_by": None,
        "locked_at": None,
        "payload": {"n": 1},
    }
    holder = str(uuid4())
    return [
        {**base, "job_name": "pending", "status": "pending"},
        {**base, "job_name": "later", "status": "pending", "trigger_time": now + timedelta(hours=1)},
        {**base, "job_name": "too late", "status": "pending", "trigger_time": now - timedelta(minutes=31)},
        {**base, "job_name": "unassigned", "status": "locked", "locked_by": holder},
        {
            **base,
            "job_name": "stale",
            "status": "locked",
            "locked_by": holder,
            "locked_at": now - timedelta(minutes=16),
        },
        {
            **base,
            "job_name": "waiting_for",
            "status": "locked",
            "locked_by": holder,
            "locked_at": now - timedelta(minutes=14),
        },
        {**base, "job_name": "done", "status": "completed", "locked_by": holder, "locked_at": now},
    ]


EXPECTED = {
    "pending": "completed",
    "later": "pending",
    "too late": "expired",
    "unassigned": "completed",
    "stale": "completed",
    "waiting_for": "locked",
    "done": "completed",
    "inserted meanwhile": "completed",
}


async def _becomes_as_expected(db: Database, worker: Command) -> None:
    async def statuses() -> bool:
        assert worker.process.poll() is None, worker.output
        found = {one["job_name"]: one["status"] async for one in db.jobs.find({}, hint="_id_")}
        return found == EXPECTED

    await eventually(statuses, timeout=60)


async def test_the_example_runs_what_another_program_has_inserted_and_goes_on_inserting(
    start: Start, uri: str, db: Database
) -> None:
    await db.jobs.insert_many(documents())
    settings = {"MONGO_URI": uri, "DB_NAME": str(parse_uri(uri)["database"]), "PROCESSING_TIME": "0.1"}
    worker = start(str(ROOT / "examples" / "job_scheduler_worker.py"), command=PYTHON, cwd=ROOT, **settings)
    await eventually(lambda: "pending is processed {'n': 1}" in worker.output or worker.process.poll() is not None)
    await db.jobs.insert_one({**documents()[0], "job_name": "inserted meanwhile"})
    await _becomes_as_expected(db, worker)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output


async def test_the_settings_of_that_worker_are_options_and_variables_of_the_command(
    start: Start, uri: str, db: Database
) -> None:
    await db.jobs.insert_many([*documents(), {**documents()[0], "job_name": "inserted meanwhile"}])
    options = ("--field-map", "status-lock", "--start-within", "30m")
    variables = {"MAINSPRING_LEASE": "15m", "MAINSPRING_POLL_INTERVAL_MS": "30000"}
    worker = start("worker", "catching:scheduler", *options, MAINSPRING_URI=uri, **variables)
    await _becomes_as_expected(db, worker)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output
