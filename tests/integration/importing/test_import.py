"""Importing from real collections: APScheduler 3 writes its own, the others have documents of their shape."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.jobstores.mongodb import MongoDBJobStore  # type: ignore[import-untyped]
from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]
from apscheduler.triggers.combining import AndTrigger, OrTrigger  # type: ignore[import-untyped]
from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped]
from bson import ObjectId
from pymongo import MongoClient
from pymongo.asynchronous.database import AsyncDatabase
from typer.testing import CliRunner

from mainspring import AnyOf, Cron, Every, Scheduler
from mainspring.cli.app import app
from mainspring.client.importing import ImportReport, import_from
from mainspring.errors import ConfigurationError
from mainspring.model.importing.apscheduler import read_apscheduler
from mainspring.model.importing.plan import Choices, LeftOut

Make = Callable[..., Scheduler]
Database = AsyncDatabase[dict[str, Any]]
BERLIN = ZoneInfo("Europe/Berlin")
LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)


def collection_of(uri: str, name: str) -> str:
    base, _, options = uri.partition("?")
    return f"{base}.{name}?{options}"


class Order:
    """A class of the user's program."""


def fates(report: ImportReport) -> dict[str, str]:
    return {outcome.source_id: outcome.fate for outcome in report.outcomes}


@pytest.fixture
def stored(uri: str) -> str:
    """The collection of an APScheduler with jobs of all kinds."""
    database = uri.rpartition("/")[2].partition("?")[0]
    with MongoClient[dict[str, Any]](uri) as client:
        store = MongoDBJobStore(database=database, collection="apjobs", client=client)
        scheduler = BackgroundScheduler(jobstores={"default": store}, timezone=BERLIN)
        scheduler.start(paused=True)

        def add(id: str, trigger: Any, **options: Any) -> None:
            scheduler.add_job("json:dumps", trigger, id=id, **{"kwargs": {"obj": {"n": 1}}, **options})

        add("once", "date", run_date=LATER, misfire_grace_time=60)
        add("every", "interval", minutes=10, start_date=LATER, jitter=5)
        add("cron", "cron", hour="7-9", day_of_week="mon-fri", misfire_grace_time=None, coalesce=False)
        add("odd", "cron", day_of_week="*/2", minute="*/15", max_instances=3)
        add("second", "cron", day="2nd mon, last fri", hour=6)
        add("last", CronTrigger(day="last", timezone="Asia/Tokyo", end_date=LATER))
        add("or", OrTrigger([CronTrigger(hour=1, timezone=BERLIN), CronTrigger(hour=5, timezone=BERLIN)]))
        add("and", AndTrigger([CronTrigger(hour="4-6", timezone=BERLIN), CronTrigger(hour=5, timezone=BERLIN)]))
        add("year", "cron", year=2030)
        add("both", "cron", day=13, day_of_week="fri")
        add("args", "interval", hours=1, args=[1], kwargs={})
        add("object", "interval", hours=1, kwargs={"obj": Order()})
        add("paused", "interval", hours=1, start_date=LATER)
        scheduler.pause_job("paused")
        scheduler.shutdown(wait=False)
        store.client = client  # it was closed by the shutdown
    return collection_of(uri, "apjobs")


async def test_jobs_of_apscheduler_become_jobs_and_schedules_once(
    stored: str, make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler()
    before = await db.apjobs.find().hint("_id_").to_list()
    dry = await import_from(scheduler, "apscheduler", stored)
    refused = {"and", "year", "both", "args", "object"}
    made = {"once", "every", "cron", "odd", "second", "last", "or", "paused"}
    assert fates(dry) == dict.fromkeys(refused, "refused") | dict.fromkeys(made, "new")
    assert await db.jobs.estimated_document_count() == 0 == await db["jobs.schedules"].estimated_document_count()
    done = await import_from(scheduler, "apscheduler", stored, apply=True)
    assert fates(done) == dict.fromkeys(refused, "refused") | dict.fromkeys(made, "created")
    await scheduler.schedules.pause("apscheduler:odd")
    again = await import_from(scheduler, "apscheduler", stored, apply=True)
    assert fates(again) == dict.fromkeys(refused, "refused") | dict.fromkeys(made, "exists")
    assert await db.apjobs.find().hint("_id_").to_list() == before
    rules = {one.id.removeprefix("apscheduler:"): one async for one in scheduler.schedules.find()}
    assert rules["every"].rule == Every("10m", anchor=LATER) and rules["every"].jitter == timedelta(seconds=5)
    assert rules["cron"].rule == Cron("0 0 7-9 * * 1,2,3,4,5", "Europe/Berlin")
    assert (rules["cron"].policy.misfire, rules["cron"].policy.overlap) == ("all", "skip")
    assert rules["odd"].rule == Cron("0 */15 * * * 1,3,5,0", "Europe/Berlin")
    assert (rules["odd"].policy.misfire, rules["odd"].policy.overlap) == ("skip", "allow")
    assert rules["second"].rule == Cron("0 0 6 * * 1#2,5L", "Europe/Berlin")
    assert rules["last"].rule == Cron("0 0 0 L * *", "Asia/Tokyo") and rules["last"].end_at == LATER
    assert rules["or"].rule == AnyOf(Cron("0 0 1 * * *", "Europe/Berlin"), Cron("0 0 5 * * *", "Europe/Berlin"))
    assert rules["odd"].paused is not None, "a second import leaves it as it is here"
    assert rules["paused"].paused is not None and rules["cron"].data == {"obj": {"n": 1}}
    (job,) = [job async for job in scheduler.jobs()]
    assert (job.name, job.run_at, job.start_within) == ("json:dumps", LATER, timedelta(seconds=60))
    texts = {one.source_id: one.text for one in done.outcomes}
    assert "test_import.Order" in texts["object"] and "--arguments json:dumps=first,second" in texts["args"]


class Evil:
    """An object whose pickle runs a command."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_reading_a_pickle_runs_nothing_of_it(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for state in (Evil(mark), {"func": "a:b", "kwargs": {"x": Evil(mark)}, "trigger": None}, {"func": Evil(mark)}):
        planned = read_apscheduler({"_id": "x", "job_state": pickle.dumps(state)}, Choices("a"))
        assert isinstance(planned, LeftOut) and planned.kind == "refused"
    # Attributes of the stand-ins lead nowhere: builtins.getattr(ZoneInfo, "__subclasses__").
    chain = b"cbuiltins\ngetattr\n(czoneinfo\nZoneInfo\nS'__subclasses__'\ntR."
    planned = read_apscheduler({"_id": "x", "job_state": chain}, Choices("a"))
    assert isinstance(planned, LeftOut) and "takes the attribute '__subclasses__'" in planned.reason
    large = read_apscheduler({"_id": "x", "job_state": pickle.dumps("x" * 4 * 1024 * 1024)}, Choices("a"))
    assert isinstance(large, LeftOut) and "4,194,304 are the most" in large.reason
    for broken in (b"", b"garbage", b"\x80\x05."):
        assert isinstance(read_apscheduler({"_id": "x", "job_state": broken}, Choices("a")), LeftOut)
    assert not mark.exists()


@pytest.mark.slow
def test_an_import_by_the_command_is_a_dry_run_first_and_can_be_repeated(
    uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    many = [
        {"_id": ObjectId(), "name": "mail", "data": {"n": n}, "nextRunAt": at, "type": "normal"} for n in range(600)
    ]
    with MongoClient[dict[str, Any]](uri) as client:
        jobs = client.get_default_database().agendaJobs
        jobs.insert_many([*many, {"name": "report", "data": None, "repeatInterval": "one hour", "nextRunAt": at}])
        jobs.insert_one({"name": "moon", "repeatInterval": "at full moon", "nextRunAt": at})
    arguments = ["import", "agenda", "--from", uri, "--uri", uri, "--limit", "2"]
    dry = CliRunner().invoke(app, arguments)
    assert dry.exit_code == 1 and "601 to be created, 1 cannot be imported." in dry.stdout, dry.stdout
    assert dry.stdout.count("to be created ") == 2 and "moon" in dry.stdout
    done = CliRunner().invoke(app, [*arguments, "--apply"])
    assert done.exit_code == 1 and "601 created, 1 cannot be imported." in done.stdout
    assert "No live worker has a handler for 'mail', 'report': such jobs wait for one." in done.stderr
    assert caplog.messages == []
    again = CliRunner().invoke(app, [*arguments, "--apply", "--json"])
    last = json.loads(again.stdout.splitlines()[-1])
    assert last["counts"] == {"new": 0, "created": 0, "exists": 601, "finished": 0, "refused": 1}
    with MongoClient[dict[str, Any]](uri) as client:
        database = client.get_default_database()
        assert database.jobs.estimated_document_count() == 600
        assert database.agendaJobs.estimated_document_count() == 602


async def test_an_import_that_was_interrupted_goes_on_where_it_was(
    uri: str, make_scheduler: Make, db: Database
) -> None:
    documents = [{"job_name": "Job", "status": "pending", "trigger_time": LATER, "payload": {"n": n}} for n in range(3)]
    await db.theirs.insert_many(documents)
    scheduler = make_scheduler()
    first = await import_from(scheduler, "status-lock", collection_of(uri, "theirs"), apply=True)
    (lost, *_) = [outcome.id for outcome in first.outcomes]
    await scheduler.delete(str(lost))
    second = await import_from(scheduler, "status-lock", collection_of(uri, "theirs"), apply=True)
    assert second.counts == {"created": 1, "exists": 2}


async def test_what_a_handler_would_refuse_is_refused_and_all_else_is_created(
    uri: str, make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler()

    @scheduler.job("count")
    async def count(n: int) -> None: ...

    single = {"name": "count", "nextRunAt": LATER}
    repeated = {**single, "repeatInterval": "one hour"}
    documents = [
        {"_id": "good", "data": {"n": 1}, **single},
        {"_id": "wrong", "data": {"n": "x"}, **single},
        {"_id": "hourly", "data": {"n": 1}, **repeated},
        {"_id": "wrong hourly", "data": {"n": "x"}, **repeated},
    ]
    await db.agendaJobs.insert_many(documents)
    wrong = {"wrong": "refused", "wrong hourly": "refused"}
    done = await import_from(scheduler, "agenda", uri, apply=True)
    assert fates(done) == {"good": "created", "hourly": "created", **wrong}
    assert all("'n'" in one.text for one in done.outcomes if one.fate == "refused")
    again = await import_from(scheduler, "agenda", uri, apply=True)
    assert fates(again) == {"good": "exists", "hourly": "exists", **wrong}


async def test_jobs_that_exist_are_not_stored_again_and_told_without_what_a_later_handler_would_refuse(
    uri: str, make_scheduler: Make, db: Database
) -> None:
    await db.agendaJobs.insert_one({"_id": "old", "name": "count", "data": {"n": "x"}, "nextRunAt": LATER})
    first = await import_from(make_scheduler(), "agenda", uri, apply=True)
    assert fates(first) == {"old": "created"}
    scheduler = make_scheduler()

    @scheduler.job("count")
    async def count(n: int) -> None: ...

    again = await import_from(scheduler, "agenda", uri, apply=True)
    assert again.outcomes == [replace(one, fate="exists") for one in first.outcomes]


async def test_documents_with_ids_of_different_types_are_all_read(
    uri: str, make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.store.importing.source._BATCH", 2)
    single = {"name": "mail", "nextRunAt": LATER}
    await db.agendaJobs.insert_many([{"_id": one, **single} for one in (1, 2, "a", "b", ObjectId())])
    assert (await import_from(make_scheduler(), "agenda", uri)).counts == {"new": 5}


@pytest.mark.slow
def test_a_source_that_cannot_be_used_is_told_in_a_sentence(uri: str, tmp_path: Path) -> None:
    for arguments in (
        ["import", "cron", "--from", uri],
        ["import", "celery-beat", "--from", str(tmp_path / "missing.json")],
        ["import", "agenda", "--from", "http://x"],
        ["import", "agenda", "--from", "mongodb://127.0.0.1:1"],
        ["import", "agenda", "--from", uri, "--rename", "x"],
    ):
        ended = CliRunner().invoke(app, [*arguments, "--uri", uri])
        assert ended.exit_code != 0 and "ConfigurationError" in repr(ended.exception), arguments
        assert "Nothing was found" not in ended.output, arguments


def test_a_file_in_place_of_a_collection_is_refused_with_the_shape_of_its_uri(uri: str) -> None:
    ended = CliRunner().invoke(app, ["import", "agenda", "--from", "dump.json", "--uri", uri])
    assert "mongodb://host/DATABASE.agendaJobs" in str(ended.exception) and ended.output == ""


def test_a_source_that_cannot_be_read_starts_no_embedded_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAINSPRING_URI", raising=False)
    ran = CliRunner().invoke(app, ["import", "celery-beat", "--from", "missing.json"])
    assert isinstance(ran.exception, ConfigurationError) and "missing.json" in str(ran.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_collection_without_records_is_told_as_what_it_may_be_a_misspelling(uri: str) -> None:
    ended = CliRunner().invoke(app, ["import", "agenda", "--from", collection_of(uri, "agendaJobz"), "--uri", uri])
    assert (ended.exit_code, ended.output) == (
        0,
        "Nothing was found; check the database and the collection in --from.\n",
    )


def test_the_mark_under_a_wrong_cron_expression_stands_on_its_own_line(uri: str, tmp_path: Path) -> None:
    dump = tmp_path / "beat.json"
    crontab = {"minute": "61", "hour": "*", "day_of_week": "*", "day_of_month": "*", "month_of_year": "*"}
    wrong = {"name": "wrong", "task": "report", "crontab": 1, "args": "[]", "kwargs": "{}", "enabled": True}
    dump.write_text(
        json.dumps(
            [
                {"model": "django_celery_beat.crontabschedule", "pk": 1, "fields": {**crontab, "timezone": "UTC"}},
                {"model": "django_celery_beat.periodictask", "pk": 1, "fields": wrong},
            ]
        )
    )
    ended = CliRunner().invoke(app, ["import", "celery-beat", "--from", str(dump), "--uri", uri])
    first, expression, mark, *_ = ended.stdout.splitlines()
    assert "found '61'" in first and "\\n" not in ended.stdout, ended.stdout
    assert mark.index("^") == expression.index("61") >= 20
