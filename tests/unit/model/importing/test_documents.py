"""Documents of Agenda, mongo-job-scheduler and workers with a status and a lock, and dumps of django-celery-beat."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import ConfigurationError, Cron, Every, Retry
from mainspring.model.importing.agenda import read_agenda
from mainspring.model.importing.celery_beat import read_dump
from mainspring.model.importing.documents import read_mongo_job_scheduler, read_status_lock
from mainspring.model.importing.intervals import read_interval
from mainspring.model.importing.plan import Choices, LeftOut, PlannedJob, PlannedSchedule, job_id

AT = datetime(2030, 5, 1, 9, 30, tzinfo=UTC)
CHOICES = Choices("agenda", "Europe/Berlin", {"old name": "new-name"})
AGENDA: dict[str, Any] = {
    "_id": "65f0c0ffee0000000000aaaa",
    "name": "old name",
    "type": "normal",
    "data": {"to": "a@example.com"},
    "priority": 10,
    "nextRunAt": AT,
    "lastModifiedBy": None,
    "lockedAt": None,
    "failCount": 1,
    "failReason": "x",
}


def test_a_single_job_of_agenda_keeps_its_time_its_data_and_its_priority() -> None:
    planned = read_agenda(AGENDA, CHOICES)
    assert isinstance(planned, PlannedJob)
    assert (planned.name, planned.data, planned.options) == (
        "new-name",
        {"to": "a@example.com"},
        {"priority": 3, "run_at": AT},
    )
    assert planned.job_id == job_id("agenda", AGENDA["_id"]) and len(planned.job_id) == 24
    assert planned.job_id != job_id("agenda2", AGENDA["_id"])


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"repeatInterval": "0 9 * * 1-5", "repeatTimezone": "Asia/Tokyo"}, Cron("0 9 * * 1-5", "Asia/Tokyo")),
        ({"repeatInterval": "0 9 * * *"}, Cron("0 9 * * *", "Europe/Berlin")),
        ({"repeatInterval": "3 minutes"}, Every("3m", anchor=AT)),
        ({"repeatInterval": 90_000}, Every("90s", anchor=AT)),
        ({"repeatAt": "3:30pm"}, Cron("30 15 * * *", "Europe/Berlin")),
        ({"repeatAt": "at 12am"}, Cron("0 0 * * *", "Europe/Berlin")),
    ],
)
def test_a_repeated_job_of_agenda_is_a_schedule(more: dict[str, Any], rule: Any) -> None:
    planned = read_agenda({**AGENDA, **more, "disabled": True}, CHOICES)
    assert isinstance(planned, PlannedSchedule), planned
    assert planned.rule == rule and planned.options == {"priority": 3, "overlap": "skip", "paused": True}
    assert planned.schedule_id == f"agenda:{AGENDA['_id']}"


def test_the_bounds_of_a_schedule_of_agenda_are_kept_and_one_that_runs_there_is_noted() -> None:
    first, last = datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    stored = {"startDate": first.replace(tzinfo=None), "endDate": last}  # MongoDB keeps instants without a zone
    planned = read_agenda({**AGENDA, "repeatInterval": "3 minutes", **stored, "lockedAt": AT}, CHOICES)
    assert isinstance(planned, PlannedSchedule), planned
    assert (planned.options["start_at"], planned.options["end_at"]) == (first, last)
    assert [note for note in planned.notes if "stop Agenda" in note]


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        ({"nextRunAt": None}, "finished", "not to run again"),
        ({"disabled": True}, "refused", "disabled"),
        ({"repeatInterval": "when the moon is full"}, "refused", "Cron expression"),
        ({"repeatAt": "tomorrow"}, "refused", "no time of day"),
        ({"repeatInterval": "5 minutes", "repeatAt": "3pm"}, "refused", "both"),
        ({"repeatInterval": "5 minutes", "skipDays": [6]}, "refused", "skipDays"),
        ({"data": [1, 2]}, "refused", "named values"),
        ({"nextRunAt": "soon"}, "refused", "no date"),
        ({"name": ""}, "refused", "name"),
        ({"name": "", "repeatInterval": "5 minutes"}, "refused", "name"),
        ({"repeatInterval": "5 minutes", "startDate": AT, "endDate": AT - timedelta(days=1)}, "refused", "end_at"),
    ],
)
def test_what_agenda_has_finished_or_cannot_be_translated_is_left_out(
    more: dict[str, Any], kind: str, words: str
) -> None:
    planned = read_agenda({**AGENDA, **more}, CHOICES)
    assert isinstance(planned, LeftOut) and planned.kind == kind and words in planned.reason, planned


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("one day", 86_400),
        ("1 hour and 30 minutes", 5400),
        ("two weeks, 1 day", 1_296_000),
        ("1.5 hours", 5400),
        ("hour", 3600),
        ("twenty five seconds", 25),
        ("60000", 60),
        ("0 9 * * *", None),
        ("5", 0.005),
        ("5 parsecs", None),
        ("5 minutes 3", None),
        ("", None),
        (True, None),
    ],
)
def test_intervals_in_words_are_read(text: Any, seconds: float | None) -> None:
    assert read_interval(text) == (None if seconds is None else timedelta(seconds=seconds))


OTHER: dict[str, Any] = {
    "_id": "65f0c0ffee0000000000bbbb",
    "name": "mail",
    "data": {"n": 1},
    "status": "pending",
    "nextRunAt": AT,
    "attempts": 0,
    "priority": 2,
    "retry": {"maxAttempts": 4, "delay": 1500},
    "createdAt": AT,
    "updatedAt": AT,
}


def test_jobs_of_mongo_job_scheduler_are_translated() -> None:
    single = read_mongo_job_scheduler(OTHER, CHOICES)
    assert isinstance(single, PlannedJob)
    assert single.options == {"priority": 2, "run_at": AT, "retry": Retry(4, delay=1.5, backoff="fixed", jitter=0.0)}
    keyed = read_mongo_job_scheduler({**OTHER, "dedupeKey": "once"}, CHOICES)
    assert isinstance(keyed, PlannedJob) and "dedupeKey is left out" in keyed.notes[0]
    repeated = read_mongo_job_scheduler({**OTHER, "repeat": {"cron": "*/5 * * * *", "timezone": "UTC"}}, CHOICES)
    assert isinstance(repeated, PlannedSchedule) and repeated.rule == Cron("*/5 * * * *")
    assert repeated.options["overlap"] == "skip", "there, a document is one job, which never runs beside itself"
    spaced = read_mongo_job_scheduler({**OTHER, "repeat": {"every": 60_000}, "concurrency": 2}, CHOICES)
    assert isinstance(spaced, PlannedSchedule) and spaced.rule == Every("1m", after="end") and spaced.notes
    for status, kind, words in (
        ("completed", "finished", "completed there"),
        ("cancelled", "finished", "cancelled there"),
        ("running", "refused", "runs there now"),
        (5, "refused", "status 5 is not known"),
    ):
        left_out = read_mongo_job_scheduler({**OTHER, "status": status}, CHOICES)
        assert isinstance(left_out, LeftOut) and left_out.kind == kind and words in left_out.reason


def test_documents_with_a_status_and_a_lock_are_translated() -> None:
    document = {
        "_id": "65f0c0ffee0000000000cccc",
        "scheduler_id": "8f9c",
        "job_name": "Job_1",
        "status": "pending",
        "created_at": AT,
        "trigger_time": AT,
        "locked_by": None,
        "locked_at": None,
        "payload": {"n": 1},
    }
    planned = read_status_lock(document, CHOICES)
    assert isinstance(planned, PlannedJob)
    assert (planned.name, planned.data) == ("Job_1", {"n": 1})
    assert planned.options == {"run_at": AT, "tags": ["scheduler_id:8f9c"]}
    for changed, kind in (
        ({"status": "locked"}, "refused"),
        ({"status": "completed"}, "finished"),
        ({"status": 1}, "refused"),
    ):
        left_out = read_status_lock({**document, **changed}, CHOICES)
        assert isinstance(left_out, LeftOut) and left_out.kind == kind


def dump(**task: Any) -> str:
    usual = {"name": "report", "task": "shop.tasks.report", "args": "[]", "kwargs": '{"year": 2030}', "enabled": True}
    rows = [
        {"model": "django_celery_beat.intervalschedule", "pk": 1, "fields": {"every": 10, "period": "minutes"}},
        {
            "model": "django_celery_beat.crontabschedule",
            "pk": 2,
            "fields": {
                "minute": "0",
                "hour": "7, 19",
                "day_of_week": "mon-fri",
                "day_of_month": "*",
                "month_of_year": "*",
                "timezone": "Europe/Paris",
            },
        },
        {"model": "django_celery_beat.clockedschedule", "pk": 3, "fields": {"clocked_time": "2030-05-01T09:30:00Z"}},
        {"model": "django_celery_beat.crontabschedule", "pk": 4, "fields": {"day_of_week": "5", "day_of_month": "13"}},
        {"model": "django_celery_beat.periodictasks", "pk": 1, "fields": {"last_update": "2030-05-01T09:30:00Z"}},
        {"model": "django_celery_beat.periodictask", "pk": 1, "fields": {**usual, **task}},
    ]
    return json.dumps(rows)


def test_periodic_tasks_of_celery_are_translated() -> None:
    (every,) = read_dump(dump(interval=1, queue="slow", expire_seconds=60, enabled=False), CHOICES)
    assert isinstance(every, PlannedSchedule) and every.rule == Every("10m") and every.data == {"year": 2030}
    assert every.options == {"queue": "slow", "start_within": 60, "paused": True}
    (cron,) = read_dump(dump(crontab=2, one_off=True, start_time="2030-01-01T00:00:00Z"), CHOICES)
    assert isinstance(cron, PlannedSchedule) and cron.rule == Cron("0 7,19 * * MON-FRI", "Europe/Paris")
    assert cron.options == {"max_runs": 1, "start_at": datetime(2030, 1, 1, tzinfo=UTC)}
    (clocked,) = read_dump(dump(clocked=3), CHOICES)
    assert isinstance(clocked, PlannedJob) and clocked.options == {"run_at": AT}
    named = Choices("celery", arguments={"shop.tasks.report": ["month"]})
    (positional,) = read_dump(dump(interval=1, args="[5]"), named)
    assert isinstance(positional, PlannedSchedule) and positional.data == {"month": 5, "year": 2030}
    assert list(read_dump(dump(interval=1, task="celery.backend_cleanup"), CHOICES)) == []


def test_a_periodic_task_keeps_its_rhythm_and_its_end_and_one_that_has_run_is_left_out() -> None:
    (every,) = read_dump(dump(interval=1, last_run_at="2030-05-01T09:30:00Z", expires="2031-01-01T00:00:00"), CHOICES)
    assert isinstance(every, PlannedSchedule) and every.rule == Every("10m", anchor=AT)
    assert every.options["end_at"] == datetime(2031, 1, 1, tzinfo=UTC)
    (clocked,) = read_dump(dump(clocked=3, enabled=False), CHOICES)
    assert isinstance(clocked, LeftOut) and clocked.kind == "finished"
    (headed,) = read_dump(dump(interval=1, headers='{"a": 1}', priority=3), CHOICES)
    assert isinstance(headed, PlannedSchedule) and len(headed.notes) == 2, "what is left out is said"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"solar": 1}, "solar"),
        ({"crontab": 4}, "Both its day_of_month and its day_of_week"),
        ({"interval": 1, "args": "[1]"}, "--arguments shop.tasks.report=first,second"),
        ({"interval": 1, "kwargs": "nonsense"}, "no valid JSON"),
        ({"interval": 1, "args": "[1]", "task": "named"}, "'year' is given twice"),
        ({"interval": 9}, "lacks its row 9"),
    ],
)
def test_what_celery_has_and_mainspring_has_not_is_refused(task: dict[str, Any], words: str) -> None:
    (planned,) = read_dump(dump(**task), Choices("celery", arguments={"named": ["year"]}))
    assert isinstance(planned, LeftOut) and planned.kind == "refused" and words in planned.reason, planned


def test_a_file_that_is_no_dump_is_refused() -> None:
    for text in ("", "{}", '[{"model": "auth.user", "pk": 1, "fields": {}}]', "[1]"):
        with pytest.raises(ConfigurationError, match="dumpdata"):
            list(read_dump(text, CHOICES))
