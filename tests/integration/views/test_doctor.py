"""The doctor on a real server: what it reads, and the command that prints it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure
from typer.testing import CliRunner

from harness.servers import Servers
from mainspring import At, DoctorReport, Every, Scheduler
from mainspring.cli.app import app
from mainspring.store.doctor.server import ServerReads
from mainspring.store.index_definitions import JOB_INDEXES

Make = Callable[..., Scheduler]
Database = AsyncDatabase[dict[str, Any]]


JOB_INDEX_NAMES = [index.document["name"] for index in JOB_INDEXES]


def told(report: DoctorReport, check: str) -> list[tuple[str, str]]:
    return [(finding.status, finding.text) for finding in report.findings if finding.check == check]


async def test_the_doctor_looks_at_a_replica_set_and_its_work(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()

    @scheduler.job("known")
    async def known() -> None: ...

    await db.jobs.create_index("mine", name="mine")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await scheduler.schedule("known", repeat=At([tomorrow]), schedule_id="past")
    await scheduler.schedules.skip_next("past")
    await scheduler.schedule("stranger", repeat=Every("1h"), schedule_id="strange")
    await scheduler.schedule("known", repeat=Every("1h"), schedule_id="resting")
    await scheduler.schedules.pause("resting")
    await scheduler.start()
    report = await scheduler.monitor.doctor()
    assert ("warning", "The schedule 'past' has never fired and has no future firing.") in told(report, "schedules")
    assert any("'strange' makes jobs of 'stranger'" in text for _, text in told(report, "schedules"))
    assert not any("'resting'" in text for _, text in told(report, "schedules")), "its pause is meant"
    assert told(report, "workers") == [("ok", "One worker is alive.")]
    assert told(report, "topology")[0][0] == "warning" and "one node" in told(report, "topology")[0][1]
    assert told(report, "clock skew")[0][0] == "ok"
    assert told(report, "oplog")[0][0] in ("ok", "warning")  # how far it reaches back depends on the tests before
    assert told(report, "authentication")[0][0] == "warning" and told(report, "TLS")[0][0] == "ok"
    assert told(report, "write concern")[0][0] == "ok" and told(report, "schema")[0][0] == "ok"
    assert any("July 2025" in text for _, text in told(report, "server version"))
    assert told(report, "indexes")[0][0] == "ok" and "used since the server started" in told(report, "indexes")[0][1]
    assert {finding.status for finding in report.findings} <= {"ok", "warning"}


async def test_a_missing_index_and_a_lost_job_are_problems(make_scheduler: Make, db: Database) -> None:
    scheduler = await make_scheduler().connect()
    await db.jobs.drop_index("lease")
    report = await scheduler.monitor.doctor()
    assert told(report, "indexes")[0][0] == "problem" and "jobs.lease" in told(report, "indexes")[0][1]
    assert told(report, "work")[0][0] == "skipped"
    await db.jobs.create_index(
        [("state", 1), ("lease_until", 1)], name="lease", partialFilterExpression={"state": "running"}
    )
    job = await scheduler.schedule("known")
    past = datetime.now(UTC) - timedelta(minutes=5)
    lost = {"state": "running", "lease_until": past, "worker": "gone", "claim": "x"}
    await db.jobs.update_one({"name": "known", "ready": True}, {"$set": lost, "$unset": {"ready": ""}}, hint="_id_")
    report = await scheduler.monitor.doctor()
    assert told(report, "leases")[0][0] == "problem" and job.queue in told(report, "leases")[0][1]
    assert told(report, "workers")[0][0] == "warning"


async def test_an_index_with_an_array_in_a_key_is_told_until_it_is_made_again(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = await make_scheduler().connect()
    array, now = [datetime.now(UTC)], datetime.now(UTC)
    waits = {"_id": "w", "name": "known", "state": "blocked", "before": ["a#x", "b#x"], "sealed": ["k", "l"]}
    await db.jobs.insert_many([waits, {"_id": "a", "name": "known", "state": "completed", "finished_at": now}])
    assert [status for status, _ in told(await scheduler.monitor.doctor(), "indexes")] == ["ok"]
    bad = {"v": 1, "name": "known", "state": "completed", "finished_at": now, "run_at": now}
    for field, value in (("finished_at", array), ("run_at", array), ("waiting_for", [{"by": "limit"}])):
        await db.jobs.insert_one({"waiting_for": {"by": "limit"}, **bad, "_id": "bad", field: value})
        await db.jobs.delete_one({"_id": "bad"})
    found = told(await scheduler.monitor.doctor(), "indexes")
    spoiled = {name: text for _, text in found for name in JOB_INDEX_NAMES if f"index jobs.{name}," in text}
    assert {status for status, _ in found} == {"warning"}
    assert set(spoiled) == {"finished", "waiting_for", "waiting_by_queue"}
    assert "an array in finished_at of jobs" in spoiled["finished"]
    assert "an array in run_at and waiting_for of jobs" in spoiled["waiting_by_queue"]
    for name in spoiled:
        await db.jobs.drop_index(name)
    again = await make_scheduler().connect()
    assert [status for status, _ in told(await again.monitor.doctor(), "indexes")] == ["ok"]


async def test_a_schedule_that_cannot_be_read_is_told_and_one_that_is_busy_is_not(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    for busy in ("broken", "live", "making"):
        await scheduler.schedule("known", repeat=Every("1h"), schedule_id=busy)
    schedules = db["jobs.schedules"]
    await schedules.update_one({"_id": "broken"}, {"$set": {"runs": "many"}})
    for busy, value in (("live", ["0" * 24]), ("making", {"jobs": []})):  # the next firing follows from their ends
        await schedules.update_one({"_id": busy}, {"$set": {busy: value}, "$unset": {"fire_at": ""}})
    report = await scheduler.monitor.doctor()
    assert [status for status, _ in told(report, "schedules")] == ["problem"]
    assert "The schedule 'broken' cannot be read: " in told(report, "schedules")[0][1]
    await schedules.delete_one({"_id": "broken"})
    monkeypatch.setattr("mainspring.store.doctor.schedules._READ", 2)
    assert "only the newest were checked" in told(await scheduler.monitor.doctor(), "schedules")[0][1]


async def test_what_the_user_may_not_read_is_skipped(make_scheduler: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forbidden(self: ServerReads) -> None:
        raise OperationFailure("not authorized on local to execute command", 13)

    monkeypatch.setattr(ServerReads, "_oplog", forbidden)
    report = await make_scheduler().monitor.doctor()
    assert told(report, "oplog") == [("skipped", "The oplog cannot be read by this user.")]


async def test_a_standalone_server_is_told(make_scheduler: Make, standalone: Servers) -> None:
    scheduler = make_scheduler(standalone.uri("doctor"))
    report = await scheduler.monitor.doctor()
    assert told(report, "topology")[0][0] == "warning" and told(report, "oplog")[0][0] == "skipped"


def test_the_command_prints_findings_and_exits_with_1_where_there_are_problems(uri: str) -> None:
    shown = CliRunner().invoke(app, ["doctor", "--uri", uri])
    assert (
        shown.exit_code == 0 and "No problems, " in shown.stdout and "-> Start one: mainspring worker" in shown.stdout
    )
    facts = json.loads(CliRunner().invoke(app, ["doctor", "--json", "--uri", uri]).stdout)
    assert facts["status"] == "warning"
    assert {"check", "status", "text", "cure"} == set(facts["findings"][0])


def test_the_command_tells_of_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.cli.support.database.Scheduler", partial(Scheduler, operation_timeout=0.2))
    shown = CliRunner().invoke(app, ["doctor", "--uri", "mongodb://127.0.0.1:1/x"])
    assert shown.exit_code == 1 and "PROBLEM  connection:" in shown.stdout


def test_the_command_tells_of_a_service_that_is_not_there() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--url", "http://127.0.0.1:1"])
    assert shown.exit_code == 1 and "cannot be reached" in shown.stdout
