"""Idempotency-Key: what comes twice is made once, and answered the same."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Api, Reply
from mainspring import Scheduler, Unavailable
from mainspring.client.service_backend import ServiceBackend
from mainspring.store.index_definitions import REPLY_INDEXES

JOB = {"name": "report", "data": {"of": "may"}, "runAt": "2126-01-01T00:00:00Z"}
SCHEDULE = {"name": "report", "every": 60_000}


def keyed(key: str) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": key}}


async def listed(api: Api) -> list[str]:
    return [one["jobId"] for one in (await api.get("/api/jobs")).data]


def replayed(reply: Reply) -> bool:
    return reply.headers.get("idempotency-replayed") == "true"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/jobs", JOB),
        ("/api/jobs", SCHEDULE),
        ("/api/jobs", {**JOB, "dedupeKey": "d"}),
        ("/api/v1/create-job", {"type": "report", "data": {}, "scheduledTime": "2126-01-01T00:00:00"}),
    ],
)
async def test_the_same_request_with_the_same_key_is_answered_as_before(
    api: Api, path: str, body: dict[str, Any]
) -> None:
    first = await api.post(path, body, **keyed("k"))
    reordered = dict(reversed(body.items()))
    second = await api.post(path, reordered, **keyed("k"))
    assert (first.status, second.status) == (201, 201)
    assert first.text == second.text and (replayed(first), replayed(second)) == (False, True)
    assert len(await listed(api)) == 1 and len(await api.scheduler.audit.find()) == 1


async def test_another_request_with_the_same_key_is_refused(api: Api) -> None:
    await api.post("/api/jobs", JOB, **keyed("k"))
    reply = await api.post("/api/jobs", {**JOB, "data": {"of": "june"}}, **keyed("k"))
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, "Idempotency-Key")
    assert (await api.post("/api/v1/create-job", {"type": "x"}, **keyed("k"))).status == 422
    assert len(await listed(api)) == 1


async def test_without_a_key_each_request_makes_a_job_of_its_own(api: Api) -> None:
    await api.post("/api/jobs", JOB)
    await api.post("/api/jobs", JOB)
    assert len(await listed(api)) == 2


async def test_a_key_belongs_to_the_caller(api: Api) -> None:
    callers = [api.with_key((await api.scheduler.api_keys.create(name, "operator")).text) for name in ("a", "b")]
    replies = [await one.post("/api/jobs", JOB, **keyed("k")) for one in callers]
    assert not any(map(replayed, replies)) and len(await listed(callers[0])) == 2


async def test_requests_that_come_at_once_make_one_job(api: Api) -> None:
    replies = await asyncio.gather(*(api.post("/api/jobs", JOB, **keyed("k")) for _ in range(10)))
    assert {reply.status for reply in replies} == {201}
    assert len({reply.text for reply in replies}) == 1 and sum(map(replayed, replies)) == 9
    assert len(await listed(api)) == 1 and len(await api.scheduler.audit.find()) == 1


@pytest.mark.parametrize("body", [JOB, SCHEDULE])
@pytest.mark.parametrize("lost", ["keep_reply", "note_change"])
async def test_nothing_is_made_twice_when_the_first_answer_was_lost(
    api: Api, body: dict[str, Any], lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> None:
        raise Unavailable("the process dies here")

    with monkeypatch.context() as patch:
        patch.setattr(ServiceBackend, lost, broken)
        assert (await api.post("/api/jobs", body, **keyed("k"))).status == 503
    (made,) = await listed(api)
    reply = await api.post("/api/jobs", body, **keyed("k"))
    assert (reply.status, reply.data["jobId"], replayed(reply)) == (201, made, False)
    assert await listed(api) == [made]
    assert replayed(await api.post("/api/jobs", body, **keyed("k")))


async def test_a_request_that_was_refused_can_be_put_right_under_the_same_key(api: Api) -> None:
    assert (await api.post("/api/jobs", {"name": "mainspring:http"}, **keyed("k"))).status == 422
    assert (await api.post("/api/jobs", JOB, **keyed("k"))).status == 201


@pytest.mark.parametrize("key", ["", "x" * 201, "a b"])
async def test_a_key_that_is_none_is_refused(api: Api, key: str) -> None:
    assert (await api.post("/api/jobs", JOB, **keyed(key))).status == 422


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_answers_are_kept_for_a_day(api: Api) -> None:
    db = api.scheduler.client.get_default_database()
    await api.post("/api/jobs", JOB, **keyed("k"))
    indexes = await db["jobs.replies"].index_information()
    assert indexes["at"]["expireAfterSeconds"] == timedelta(days=1).total_seconds()
    assert [index.document["name"] for index in REPLY_INDEXES] == ["at"]
    stored = await db["jobs.replies"].find({}).hint("_id_").to_list(None)
    assert len(stored) == 1 and "k" not in (stored[0]["_id"], stored[0]["print"])


async def test_a_job_can_be_given_its_id_so_that_scheduling_again_is_safe(scheduler: Scheduler) -> None:
    one = await scheduler.schedule("x", {"n": 1}, job_id="a" * 24)
    other = await scheduler.schedule("x", {"n": 2}, job_id="a" * 24)
    assert (one.id, one.deduplicated, other.deduplicated, other.data) == ("a" * 24, False, True, {"n": 1})
    assert [job.id for job in await scheduler.schedule_bulk([{"name": "x", "job_id": "b" * 24}] * 2)] == ["b" * 24] * 2
