"""Every operation that creates something, asked twice with the same Idempotency-Key.

The table says how each is asked. One of the OpenAPI document that is not in it fails the first test, so that none is
forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.conftest import Api, Reply
from api.dead_letters.test_dead_letters import die
from harness.api_keys import keyed
from harness.inside import inside
from mainspring import Cron, Every, Scheduler, Unavailable
from mainspring.api.app import make_app
from mainspring.api.settings import service_settings
from mainspring.api.specification import specification
from mainspring.client.service_backend import ServiceBackend

KEY = {"Idempotency-Key": "k"}
NIGHT = Cron("0 3 * * *")


@dataclass(frozen=True)
class Case:
    """How an operation is asked for: where, with what, and for something else with the same key."""

    path: str
    body: Any = None
    other: Any = None
    other_path: str | None = None


Prepare = Callable[[Scheduler, Api], Awaitable[Case]]


async def a_job(scheduler: Scheduler, api: Api) -> Case:
    body = {"name": "x", "data": {"n": 1}}
    return Case("/api/jobs", body, body | {"data": {"n": 2}})


async def a_schedule(scheduler: Scheduler, api: Api) -> Case:
    body = {"name": "x", "schedule": "0 3 * * *"}
    return Case("/api/jobs", body, body | {"schedule": "0 4 * * *"})


async def a_v1_job(scheduler: Scheduler, api: Api) -> Case:
    return Case("/api/v1/create-job", {"type": "x", "data": {}}, {"type": "y", "data": {}})


async def a_bulk(scheduler: Scheduler, api: Api) -> Case:
    return Case("/api/jobs/bulk", [{"name": "x"}])


async def another_round(scheduler: Scheduler, api: Api) -> Case:
    job = await scheduler.schedule("x", dedupe_key="d")
    await scheduler.cancel(job.id)
    return Case(f"/api/jobs/{job.id}/retry", other_path=f"/api/jobs/{'0' * 24}/retry")


async def a_skip(scheduler: Scheduler, api: Api) -> Case:
    await scheduler.schedule("x", repeat=NIGHT, schedule_id="nightly")
    return Case("/api/schedules/nightly/skip", {"reason": "a"}, {"reason": "b"})


async def a_run_by_hand(scheduler: Scheduler, api: Api) -> Case:
    await scheduler.schedule("x", repeat=NIGHT, schedule_id="nightly", overlap="skip")
    return Case("/api/schedules/nightly/trigger", None, {"reason": "b"})


async def a_backfill(scheduler: Scheduler, api: Api) -> Case:
    now = datetime.now(UTC)
    await scheduler.schedule(
        "x",
        repeat=Every("1h", anchor=now - timedelta(hours=5)),
        schedule_id="hourly",
        start_at=now - timedelta(hours=5),
    )
    window = {"start": (now - timedelta(hours=4)).isoformat(), "end": now.isoformat(), "which": "all"}
    return Case("/api/schedules/hourly/backfill", window, window | {"which": "not_run"})


async def a_redrive(scheduler: Scheduler, api: Api) -> Case:
    await die(api, {"name": "bad"}, {"name": "worse"})
    return Case("/api/dead-letters/retry", {"filter": {"name": "bad"}}, {"filter": {"name": "worse"}})


async def a_discarding(scheduler: Scheduler, api: Api) -> Case:
    ids = await die(api, {"name": "bad"}, {"name": "worse"})
    return Case("/api/dead-letters/discard", {"ids": ids[:1]}, {"ids": ids[1:]})


async def an_operation(scheduler: Scheduler, api: Api) -> Case:
    await scheduler.schedule("x", delay=3600)
    body = {"verb": "cancel", "filter": {"name": "x"}, "reason": "a"}
    return Case("/api/operations", body, body | {"reason": "b"})


async def a_pause(scheduler: Scheduler, api: Api) -> Case:
    return Case("/api/pauses", {"queue": "mail"}, {"queue": "post"})


async def a_key(scheduler: Scheduler, api: Api) -> Case:
    return Case("/api/keys", {"name": "billing"}, {"name": "mail"})


async def a_rotation(scheduler: Scheduler, api: Api) -> Case:
    key = (await scheduler.api_keys.create("billing")).key
    return Case(f"/api/keys/{key.id}/rotate", {"grace": "1m"}, {"grace": "0s"})


async def a_copy(scheduler: Scheduler, api: Api) -> Case:
    job = await scheduler.schedule("x", delay=3600)
    return Case(f"/api/jobs/{job.id}/copy", {"delay": "1h"}, {"delay": "2h"})


async def an_alert_rule(scheduler: Scheduler, api: Api) -> Case:
    rule = {"name": "ops", "kind": "no_worker", "to": [{"type": "email", "to": ["ops@example.com"]}]}
    return Case("/api/alerts", rule, {**rule, "kind": "dead_letters"})


CREATES: dict[str, list[Prepare]] = {
    "/api/jobs": [a_job, a_schedule],
    "/api/jobs/{job_id}/copy": [a_copy],
    "/api/v1/create-job": [a_v1_job],
    "/api/schedules/{schedule_id}/trigger": [a_run_by_hand],
    "/api/dead-letters/retry": [a_redrive],
    "/api/dead-letters/discard": [a_discarding],
    "/api/operations": [an_operation],
    "/api/pauses": [a_pause],
    "/api/keys": [a_key],
    "/api/alerts": [an_alert_rule],
}
NOT_TWICE: dict[str, list[Prepare]] = {
    "/api/jobs/bulk": [a_bulk],
    "/api/jobs/{job_id}/retry": [another_round],
    "/api/schedules/{schedule_id}/skip": [a_skip],
    "/api/schedules/{schedule_id}/backfill": [a_backfill],
    "/api/keys/{key_id}/rotate": [a_rotation],
}
"""What answers 200, and does something that must not be done twice."""
NEEDS_NONE = {"/api/session", "/api/jobs/{job_id}/stack"}
OF_FLOWS = {"/api/flows", "/api/flows/batch", "/api/flows/{flow_id}/retry", "/api/jobs/{job_id}/signals/{name}"}
"""Tested in tests/api/flows."""
ALL = [one for prepared in (CREATES | NOT_TWICE).values() for one in prepared]
ONE_ANSWER = [one for one in ALL if one is not a_bulk]


@pytest.mark.slow
def test_every_operation_that_creates_something_takes_the_key() -> None:
    document = specification(make_app(Scheduler("mongodb://127.0.0.1:1/x"), service_settings()))
    posts = {path: methods["post"] for path, methods in document["paths"].items() if "post" in methods}
    creating = {path for path, operation in posts.items() if {"201", "202"} & set(operation["responses"])}
    assert creating - OF_FLOWS == set(CREATES) | NEEDS_NONE
    declared = {
        path
        for path, operation in posts.items()
        if any(one["name"] == "Idempotency-Key" and one["in"] == "header" for one in operation.get("parameters", ()))
    }
    assert declared == set(CREATES) | set(NOT_TWICE) | OF_FLOWS


async def stored(api: Api, *but: str) -> dict[str, Any]:
    """All that is in the database, but for when a key was used last, and for these collections."""
    await (await inside(api.scheduler).store()).audit.settle(10)  # its head is moved on behind the answer
    db = api.scheduler.client.get_default_database()
    hashes: dict[str, Any] = (await db.command("dbHash"))["collections"]
    keys = await db["jobs.access"].find({}, {"last_used_at": 0}).hint("_id_").to_list(None)
    return {name: value for name, value in (hashes | {"jobs.access": keys}).items() if name not in but}


async def counts(api: Api) -> dict[str, int]:
    db = api.scheduler.client.get_default_database()
    return {
        name: len(await db[name].find({}, {"_id": 1}).hint("_id_").to_list(None))
        for name in await db.list_collection_names()
    }


def told(reply: Reply) -> Any:
    """An answer but for what is shown once, and for the mark of a line that has come before."""
    body = json.loads(reply.text) if reply.body is None else reply.body  # a bulk answers in lines
    data = body.get("data", body)
    return {name: value for name, value in data.items() if name not in ("key", "hint", "deduplicated")}


async def prepared(api: Api, prepare: Prepare) -> tuple[Api, Case]:
    case = await prepare(api.scheduler, api)
    return await keyed(api), case


@pytest.mark.parametrize("prepare", ALL, ids=lambda one: one.__name__)
@pytest.mark.slow
async def test_the_same_request_is_answered_the_same_and_changes_nothing(api: Api, prepare: Prepare) -> None:
    admin, case = await prepared(api, prepare)
    first = await admin.post(case.path, case.body, headers=KEY)
    before = await stored(api)
    second = await admin.post(case.path, case.body, headers=KEY)
    assert (second.status, told(second)) == (first.status, told(first))
    assert [one.headers.get("idempotency-replayed") for one in (first, second)] == [None, "true"]
    assert await stored(api) == before
    assert len(await api.scheduler.audit.find()) == 1


@pytest.mark.parametrize("prepare", ONE_ANSWER, ids=lambda one: one.__name__)
async def test_another_request_with_the_same_key_is_refused(api: Api, prepare: Prepare) -> None:
    admin, case = await prepared(api, prepare)
    assert (await admin.post(case.path, case.body, headers=KEY)).status < 300
    before = await stored(api)
    reply = await admin.post(case.other_path or case.path, case.other, headers=KEY)
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, "Idempotency-Key")
    assert await stored(api) == before


async def broken(*_: Any) -> None:
    raise Unavailable("the process dies here")


@pytest.mark.parametrize("lost", ["keep_reply", "note_change"])
@pytest.mark.parametrize("prepare", ONE_ANSWER, ids=lambda one: one.__name__)
@pytest.mark.slow
async def test_nothing_is_made_twice_after_a_death_before_the_answer_was_kept(
    api: Api, prepare: Prepare, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, case = await prepared(api, prepare)
    with monkeypatch.context() as patch:
        patch.setattr(ServiceBackend, lost, broken)
        assert (await admin.post(case.path, case.body, headers=KEY)).status == 503
    later = {"jobs.replies", "jobs.audit", "jobs.audit.head"} | ({"jobs.controls"} if prepare is a_pause else set())
    before, counted = await stored(api, *later), await counts(api)
    reply = await admin.post(case.path, case.body, headers=KEY)
    assert reply.status in (200, 201, 202) and "idempotency-replayed" not in reply.headers
    assert await stored(api, *later) == before
    assert {**await counts(api), "jobs.audit": 1, "jobs.audit.head": 1} == {
        **counted,
        "jobs.audit": 1,
        "jobs.audit.head": 1,
    }
    assert len(await api.scheduler.audit.find()) == 1
    again = await admin.post(case.path, case.body, headers=KEY)
    assert (told(again), again.headers["idempotency-replayed"]) == (told(reply), "true")


async def test_without_a_key_what_is_done_twice_is_done_twice(api: Api) -> None:
    await a_skip(api.scheduler, api)
    first, second = [(await api.post("/api/schedules/nightly/skip")).data["nextAt"] for _ in range(2)]
    assert second > first


@pytest.mark.parametrize(("prepare", "status"), [(a_key, 201), (a_rotation, 200)])
async def test_the_text_of_a_key_is_shown_once_and_kept_nowhere(api: Api, prepare: Prepare, status: int) -> None:
    admin, case = await prepared(api, prepare)
    first = await admin.post(case.path, case.body, headers=KEY)
    second = await admin.post(case.path, case.body, headers=KEY)
    assert (first.status, second.status, first.data["hint"]) == (status, status, None)
    assert (await api.with_key(first.data["key"]).get("/api/session")).status == 200
    assert second.data["key"] is None and "rotate" in second.data["hint"]
    replies = api.scheduler.client.get_default_database()["jobs.replies"]
    assert first.data["key"].split("_")[2] not in str(await replies.find({}).hint("_id_").to_list(None))


@pytest.mark.parametrize("prepare", [a_key, a_rotation], ids=lambda one: one.__name__)
async def test_a_key_whose_text_was_lost_is_told_of_without_it(
    api: Api, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, case = await prepared(api, prepare)
    with monkeypatch.context() as patch:
        patch.setattr(ServiceBackend, "keep_reply", broken)
        await admin.post(case.path, case.body, headers=KEY)
    lost = (await admin.post(case.path, case.body, headers=KEY)).data
    assert lost["key"] is None and "rotate" in lost["hint"]
    found = (await admin.post(f"/api/keys/{lost['id']}/rotate")).data
    assert (await api.with_key(found["key"]).get("/api/session")).status == 200


async def test_another_request_for_the_same_window_goes_on_with_its_backfill(api: Api) -> None:
    case = await a_backfill(api.scheduler, api)
    first = await api.post(case.path, case.body, headers=KEY)
    second = await api.post(case.path, case.body, headers={"Idempotency-Key": "another"})
    assert second.data == first.data and "idempotency-replayed" not in second.headers


async def test_a_request_that_may_have_made_something_keeps_its_key_when_it_is_refused_later(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = await a_run_by_hand(api.scheduler, api)
    with monkeypatch.context() as patch:
        patch.setattr(ServiceBackend, "keep_reply", broken)
        assert (await api.post(case.path, headers=KEY)).status == 503
    (run,) = [job async for job in api.scheduler.jobs(schedule_id="nightly")]
    await api.scheduler.delete(run.id)
    assert (await api.post(case.path, headers=KEY)).status == 404
    assert (await api.post(case.path, headers=KEY)).status == 404
    assert [job async for job in api.scheduler.jobs(schedule_id="nightly")] == []


@pytest.mark.slow
async def test_a_key_with_a_scope_that_lost_the_answer_is_told_of_what_it_has_discarded(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dead,) = await die(api, {"name": "bad", "queue": "a"})
    tenant = await keyed(api, "operator", queues=["a"])
    with monkeypatch.context() as patch:
        patch.setattr(ServiceBackend, "keep_reply", broken)
        assert (await tenant.post("/api/dead-letters/discard", {"ids": [dead]}, headers=KEY)).status == 503
    reply = await tenant.post("/api/dead-letters/discard", {"ids": [dead]}, headers=KEY)
    assert (reply.status, reply.data["done"]) == (202, 1)
    assert len(await api.scheduler.dead_letters.redrives()) == 1
