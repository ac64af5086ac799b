"""Every BSON value in every field of a job's document: the job is decoded, its types are right, and it can be shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import bson
import pytest

from harness.hostile import VALUES, every, paths_in, raw
from harness.inside import inside
from mainspring import Scheduler
from mainspring.api.dependencies import Caller, Service
from mainspring.api.jobs.resources import executions_of, request_of, resource_of
from mainspring.api.middleware.authentication import Principal
from mainspring.api.settings import service_settings
from mainspring.api.wire.jobs import JobDetail, JobOut
from mainspring.model.access.api_keys import ADMIN, EVERYTHING
from mainspring.store.codec import decode_job
from mainspring.store.connection import CODEC
from mainspring.store.fitting import fit
from mainspring.store.schedules.codec import decode_schedule
from mainspring.store.shapes import JOB

AT = datetime(2030, 1, 1, tzinfo=UTC)
ERROR = {"type": "ValueError", "message": "no", "stack": "File …", "details": {"status": 500}}
ATTEMPT = {
    "n": 1,
    "token": 1,
    "outcome": "failed",
    "worker": "w",
    "error": ERROR,
    "log": ["a"],
    "log_cut": 1,
    "run_at": AT,
    "started_at": AT,
    "ended_at": AT,
}
DOCUMENT: dict[str, Any] = {
    "_id": "j",
    "v": 1,
    "name": "mainspring:http",
    "queue": "q",
    "state": "running",
    "priority": 3,
    "rev": 1,
    "data": {"request": {"url": "u", "method": "GET", "headers": {"A": "b"}, "query": {"a": "b"}}, "data": {}},
    "data_v": 1,
    "token": 1,
    "tries": 1,
    "asked_priority": 4,
    "run_at": AT,
    "created_at": AT,
    "start_by": AT,
    "expires_at": AT,
    "claimed_at": AT,
    "lease_until": AT,
    "finished_at": AT,
    "edited_at": AT,
    "attempts": [ATTEMPT],
    "attempts_cut": 1,
    "steps": [{"name": "s", "at": AT, "attempt": 1, "result": 1}],
    "tags": ["t"],
    "sealed": ["k"],
    "start_within": 5.0,
    "timeout": 5.0,
    "guarantee": "at_least_once",
    "retry": {"attempts": 3, "delay": 1.0},
    "waiting_for": {"by": "x", "note": "y", "since": AT},
    "result": {"status": 1},
    "progress": {"percent": 5.0, "note": "n"},
    "error": ERROR,
    "result_note": "r",
    "worker": "w",
    "dedupe_key": "d",
    "parent_id": "p",
    "schedule_id": "s",
    "scheduled_for": AT,
    "fingerprint": "f",
    "line": "l",
    "seq": "s",
    "ready": True,
    "log": ["a"],
    "log_cut": 1,
    "cancel": {"at": AT},
    "suspect": True,
    "stack": {"at": AT, "token": 1, "text": "File …"},
    "snoozes": [{"token": 1, "run_at": AT, "started_at": AT, "at": AT, "until": AT, "reason": "later"}],
}


@pytest.fixture(scope="module")
def caller() -> Caller:
    service = Service(Scheduler("mongodb://127.0.0.1:1/x"), service_settings())
    return Caller(service, Principal("x", ADMIN, EVERYTHING, "local"), None)


async def test_a_job_with_any_value_in_any_field_is_shown(caller: Caller) -> None:
    for why, document in every(DOCUMENT):
        stored = bson.decode(raw(document).raw, CODEC)
        job = inside(caller.scheduler).core.privacy.cipher.decode(stored)
        shown = caller.scheduler.privacy.shown(job)
        try:
            detail = JobDetail.at(shown, AT, request_of(shown, job), with_stack=True)
            for out in (JobOut.of(shown), detail, await resource_of(caller, job)):
                assert '"j"' in out.model_dump_json(), why
            for execution in executions_of(caller, job, "j"):
                execution.model_dump_json()
        except Exception as error:
            raise AssertionError(why) from error


def test_a_malformed_field_is_named_without_its_value() -> None:
    named = {"error"}
    for why, document in every({key: value for key, value in DOCUMENT.items() if key != "error"}):
        field, _, _value = why.partition("=")
        stored = bson.decode(raw(document).raw, CODEC)
        wrong = fit(stored, JOB).wrong
        assert "hostile" not in str(wrong), why
        if wrong:
            named.add(field.partition(".")[0])
            error = decode_job(stored).error
            assert error is not None and error.type == "Undecodable", why
            assert error.message.startswith(field.partition(".")[0]), (why, error.message)
    assert set(JOB) - named == set()


def test_every_field_of_a_job_that_has_a_type_is_tried() -> None:
    assert set(JOB) <= {path[0] for path in paths_in(DOCUMENT)}
    assert len(VALUES) > 30


def test_a_job_of_a_newer_layout_is_shown_and_says_so() -> None:
    error = decode_job({"_id": "j", "v": 99, "name": "n", "state": "pending", "token": "y"}).error
    assert error is not None and "newer" in error.message


def test_a_name_or_queue_that_is_no_text_is_within_the_reach_of_no_scope() -> None:
    for wrong in ({"name": 5, "queue": "q"}, {"name": "n", "queue": ["q"]}):
        job = decode_job({"_id": "j", **wrong})
        assert "" in (job.name, job.queue)
        schedule = decode_schedule({"_id": "s", "job": wrong})
        assert "" in (schedule["name"], schedule["queue"])
