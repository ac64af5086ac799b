"""Batches over HTTP: streamed in, sealed at the end of the body, aborted when the body ends early."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from api.conftest import Api
from api.flows.test_flows_api import ended
from harness.api_keys import actions
from harness.pages import ROOT, blocks
from harness.waiting import eventually
from mainspring import Fail, JobContext
from mainspring.client.scheduler import core_of
from mainspring.store.codec import document_id

SOON = 20
BATCH = "/api/flows/batch"
NDJSON = {"Content-Type": "application/x-ndjson"}
HEAD: dict[str, Any] = {
    "name": "mails",
    "onSuccess": {"job": "sent", "data": {"note": "x"}},
    "onDone": {"job": "report"},
}


def ndjson(*items: Any) -> bytes:
    return b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items)


def work(*numbers: int) -> list[dict[str, Any]]:
    return [{"name": "work", "data": {"n": n}} for n in numbers]


async def send(api: Api, body: Any, **headers: str) -> list[dict[str, Any]]:
    sent = {**api.headers, **NDJSON, **headers}
    async with api.session.post(api.url + BATCH, data=body, headers=sent) as answer:
        assert (answer.status, answer.content_type) == (200, "application/x-ndjson"), await answer.text()
        return [json.loads(line) async for line in answer.content]


@pytest.fixture
def called(api: Api) -> list[Any]:
    """The callbacks that were run, each with the numbers of its batch."""
    noted: list[Any] = []

    @api.scheduler.job("work", retry=1)
    async def handler(n: int) -> None:
        if n < 0:
            raise Fail("negative")

    for name in ("sent", "complain", "report"):

        @api.scheduler.job(name)
        async def callback(ctx: JobContext, note: str = "") -> None:
            summary = ctx.before["items"].result
            noted.append((ctx.name, summary["total"], summary["failed"], note))

    return noted


async def lapse(api: Api, flow_id: str) -> None:
    """Let the minute pass after which a batch that is not renewed is given up."""
    jobs = (await core_of(api.scheduler).store()).connection.jobs
    past = api.scheduler.now() - timedelta(seconds=1)
    await jobs.update_one({"_id": document_id(flow_id)}, {"$set": {"check_at": past}}, hint="_id_")


async def members(api: Api, flow_id: str) -> list[str]:
    return [job.state async for job in api.scheduler.jobs(flow_id=flow_id)]


@pytest.mark.slow
async def test_a_batch_stores_its_lines_and_runs_its_callbacks_when_all_have_ended(api: Api, called: list[Any]) -> None:
    answers = await send(api, ndjson(HEAD, b"", *work(*range(1200))))
    flow_id = answers[0]["flowId"]
    assert answers[0] == {"line": 1, "flowId": flow_id}
    assert [one["line"] for one in answers[1:-1]] == list(range(3, 1203))
    assert answers[1]["jobId"].startswith(f"{flow_id}.items.") and "deduplicated" not in answers[1]
    assert answers[-1] == {"flowId": flow_id, "sealed": True, "jobs": 1200}
    (row,) = await api.scheduler.audit.find()
    told = row.value_after()
    assert (row.action, row.target, told["stored"]["count"], told["sealed"]) == ("flow.batch", flow_id, 1200, True)
    await api.scheduler.start()
    flow = await ended(api, flow_id)
    assert (flow["kind"], flow["name"], flow["state"], flow["aborted"]) == ("batch", "mails", "completed", False)
    assert sorted(called) == [("report", 1200, 0, ""), ("sent", 1200, 0, "x")]


@pytest.mark.slow
async def test_a_json_array_does_the_same_and_too_many_bad_ends_call_the_callback_of_failure(
    api: Api, called: list[Any]
) -> None:
    head = {"onSuccess": {"job": "sent"}, "onFailure": {"job": "complain"}, "tolerate": 1}
    await api.scheduler.start()
    for items in (work(1, -1), work(1, -1, -2)):
        kind = {"Content-Type": "application/json"}
        answers = await send(api, json.dumps([head, *items]), **kind)
        await ended(api, answers[-1]["flowId"])
    assert called == [("sent", 2, 1, ""), ("complain", 3, 2, "")]


async def test_a_webhook_is_a_callback(api: Api) -> None:
    head = {"onDone": {"endpoint": "https://example.com/done", "retryAttempts": 4}}
    answers = await send(api, ndjson(head))
    assert answers[-1]["jobs"] == 0
    callback = (await api.scheduler.get_job(answers[0]["flowId"])).data["callbacks"]["on_done"]
    assert (callback["job"], callback["options"]["queue"]) == ("mainspring:http", "http")
    assert callback["options"]["retry"]["attempts"] == 5


@pytest.mark.slow
async def test_lines_are_answered_and_run_while_the_client_still_sends(api: Api, called: list[Any]) -> None:
    go_on = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield ndjson(HEAD, *work(1))
        await go_on.wait()
        yield ndjson(*work(2))

    await api.scheduler.start()
    async with api.session.post(api.url + BATCH, data=body(), headers=NDJSON) as answer:
        flow_id = json.loads(await answer.content.readline())["flowId"]
        job_id = json.loads(await answer.content.readline())["jobId"]
        assert (await api.scheduler.wait(job_id, SOON)).state == "completed"
        assert (await api.get(f"/api/flows/{flow_id}")).data["state"] == "blocked" and called == []
        go_on.set()
        assert json.loads((await answer.content.read()).splitlines()[-1])["sealed"] is True
    assert (await ended(api, flow_id))["state"] == "completed"


async def test_a_batch_whose_client_pauses_is_renewed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.client.flows.batches.RENEW_EVERY", 0.02)
    go_on = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield ndjson(HEAD, *work(1))
        await go_on.wait()
        yield ndjson(*work(2))

    async with api.session.post(api.url + BATCH, data=body(), headers=NDJSON) as answer:
        flow_id = json.loads(await answer.content.readline())["flowId"]
        assert "jobId" in json.loads(await answer.content.readline())
        jobs = (await core_of(api.scheduler).store()).connection.jobs
        before = await jobs.find_one({"_id": document_id(flow_id)}, ["check_at"])

        async def renewed() -> bool:
            return await jobs.find_one({"_id": document_id(flow_id)}, ["check_at"]) != before

        await eventually(renewed, SOON)
        go_on.set()
        assert json.loads((await answer.content.read()).splitlines()[-1])["sealed"] is True


@pytest.mark.parametrize(
    ("wrong", "status", "field"),
    [
        (b"{broken", 400, None),
        ({"name": "work", "data": {"m": 1}}, 422, "data.n"),
        ({"name": "work", "data": {"n": 1}, "dedupeKey": "k"}, 422, "dedupeKey"),
        ({"name": "work", "schedule": "* * * * *"}, 422, "schedule"),
        ({"name": "work", "colour": "red"}, 422, "colour"),
    ],
)
async def test_the_first_refused_line_ends_the_batch_and_its_jobs_are_cancelled(
    api: Api, called: list[Any], wrong: Any, status: int, field: str | None
) -> None:
    answers = await send(api, ndjson(HEAD, *work(1), wrong, *work(2)))
    flow_id = answers[0]["flowId"]
    assert [one.get("line") for one in answers] == [1, 2, 3, None]
    assert (answers[2]["error"]["status"], answers[2]["error"].get("field")) == (status, field)
    assert answers[3]["sealed"] is False and "given up" in answers[3]["detail"]
    assert (await api.get(f"/api/flows/{flow_id}")).data["state"] == "cancelled"
    assert await members(api, flow_id) == ["cancelled"]
    (row,) = await api.scheduler.audit.find()
    assert row.value_after()["sealed"] is False


async def interrupt(api: Api, head: dict[str, Any], **headers: str) -> str:
    """Send two jobs of a batch, and break the connection; returns its id."""
    stop = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield ndjson(head, *work(0, 1))
        await stop.wait()

    async with (
        aiohttp.ClientSession() as session,
        session.post(api.url + BATCH, data=body(), headers={**NDJSON, **headers}) as answer,
    ):
        told = [json.loads(await answer.content.readline()) for _ in range(3)]
        answer.close()
    stop.set()
    return str(told[0]["flowId"])


@pytest.mark.slow
async def test_an_interrupted_upload_aborts_the_batch(api: Api, called: list[Any]) -> None:
    flow_id = await interrupt(api, {**HEAD, "onFailure": {"job": "complain"}})
    assert (await api.get(f"/api/flows/{flow_id}")).data["state"] == "blocked"

    async def noted() -> bool:
        return await actions(api) == [("flow.batch", flow_id)]

    await eventually(noted, SOON)
    await lapse(api, flow_id)
    await api.scheduler.start()
    flow = await ended(api, flow_id)
    assert (flow["state"], flow["aborted"]) == ("failed", True)
    assert sorted(called) == [("complain", 2, 0, ""), ("report", 2, 0, "")]


@pytest.mark.slow
async def test_an_interrupted_upload_is_continued_by_its_key_and_no_job_is_stored_twice(
    api: Api, called: list[Any]
) -> None:
    key = {"Idempotency-Key": "k"}
    flow_id = await interrupt(api, HEAD, **key)
    other = await send(api, ndjson(HEAD, *work(0, 7)), **key)
    assert "other items" in other[1]["error"]["detail"] and other[-1]["sealed"] is False
    short = await send(api, ndjson(HEAD, *work(0)), **key)
    assert "other items" in short[2]["error"]["detail"] and short[-1]["sealed"] is False
    whole = await send(api, ndjson(HEAD, *work(0, 1, 2)), **key)
    assert [one.get("deduplicated") for one in whole[1:-1]] == [True, True, None]
    assert whole[-1] == {"flowId": flow_id, "sealed": True, "jobs": 3}
    sent = {**NDJSON, **key}
    again = await api.call("POST", BATCH, data=ndjson(HEAD, *work(0, 1, 2)), headers=sent)
    assert json.loads(again.text) == whole[-1] and again.headers["idempotency-replayed"] == "true"
    changed = await api.call("POST", BATCH, data=ndjson({**HEAD, "name": "other"}), headers=sent)
    assert (changed.status, changed.body["errors"][0]["field"]) == (422, "Idempotency-Key")
    await api.scheduler.start()
    assert (await ended(api, flow_id))["state"] == "completed"
    assert sorted(called) == [("report", 3, 0, ""), ("sent", 3, 0, "x")]


@pytest.mark.slow
async def test_a_batch_that_was_aborted_is_not_continued(api: Api, called: list[Any]) -> None:
    key = {"Idempotency-Key": "k"}
    flow_id = await interrupt(api, HEAD, **key)
    await lapse(api, flow_id)
    await api.scheduler.start()
    await ended(api, flow_id)
    again = await api.call("POST", BATCH, data=ndjson(HEAD, *work(0, 1, 2)), headers={**NDJSON, **key})
    assert again.status == 409 and "failed since its body ended early" in again.body["detail"]


@pytest.mark.parametrize(
    ("head", "status", "field"),
    [
        (b"", 422, None),
        (b"[1", 400, None),
        (b"7", 422, None),
        ({"colour": "red"}, 422, "colour"),
        ({"onDone": {"job": "mainspring:flow"}}, 422, "onDone.job"),
        ({"onDone": {}}, 422, "onDone.job"),
        ({"onSuccess": {"endpoint": "ftp://x"}}, 422, "onSuccess.endpoint"),
        ({"onFailure": {"job": "complain", "data": {"note": 7}}}, 422, "onFailure.data.note"),
        ({"onDone": {"job": "x", "after": ["y"]}}, 422, "onDone.after"),
        ({"tolerate": -1}, 422, "tolerate"),
        ({"tolerate": 1.5}, 422, "tolerate"),
    ],
)
async def test_a_wrong_first_line_is_refused_and_nothing_is_stored(
    api: Api, called: list[Any], head: Any, status: int, field: str | None
) -> None:
    reply = await api.call("POST", BATCH, data=ndjson(head), headers=NDJSON)
    assert reply.status == status, reply.text
    found = reply.body["errors"][0]["field"] if field is not None else None
    assert found == field or (field is not None and str(found).startswith(field)), reply.text
    assert (await api.get("/api/flows")).data == [] and await actions(api) == []


async def test_a_key_starts_batches_within_its_scope_only_and_sees_no_foreign_callbacks(api: Api) -> None:
    tenant = api.with_key((await api.scheduler.api_keys.create("ops", "operator", queues=["acme"])).text)
    own = {"queue": "acme"}
    answers = await send(tenant, ndjson({"onDone": {"job": "report", **own}}, {"name": "work", **own}))
    assert answers[-1]["sealed"] is True
    assert (await tenant.get(f"/api/flows/{answers[0]['flowId']}")).data["queue"] == "acme"
    for head, field in (({"onDone": {"job": "r", "queue": "globex"}}, "onDone.queue"), ({"queue": "globex"}, "queue")):
        refused = await tenant.call("POST", BATCH, data=ndjson(head), headers={**NDJSON})
        assert (refused.status, refused.body["errors"][0]["field"]) == (403, field)
    foreign = await send(tenant, ndjson({**own}, {"name": "work", "queue": "globex"}))
    assert foreign[1]["error"]["status"] == 403 and foreign[-1]["sealed"] is False
    named = api.with_key((await api.scheduler.api_keys.create("ops", "operator", prefixes=["work"])).text)
    refused = await named.call("POST", BATCH, data=ndjson({}), headers=NDJSON)
    assert (refused.status, refused.body["errors"][0]["field"]) == (403, "name")
    mixed = await api.scheduler.batch([], on_done=("hidden-job", {"n": 1}, {"queue": "globex"}), queue="acme")
    for path in (f"flows/{mixed.id}", f"jobs/{mixed.id}", f"jobs/{mixed.id}/detail", "jobs/search"):
        found = await tenant.get(f"/api/{path}")
        assert found.status == 200 and "hidden-job" not in found.text, path


async def test_the_batch_of_the_how_to_is_stored(api: Api) -> None:
    page = ROOT / "docs" / "howto" / "http-api.md"
    (example,) = [one.text for one in blocks(page) if (one.mark, one.argument) == ("flow", "batch")]
    answers = await send(api, example.encode())
    assert answers[-1]["sealed"] is True and answers[-1]["jobs"] == 2


@pytest.mark.slow
async def test_the_memory_of_a_batch_does_not_grow_with_its_lines(api: Api) -> None:
    async def body(number: int) -> AsyncIterator[bytes]:
        yield ndjson({"name": "many"})
        for _ in range(number // 100):
            yield ndjson(*({"name": "elsewhere", "data": {"text": "x" * 200, "n": n}} for n in range(100)))

    async def run(number: int) -> None:
        async with api.session.post(api.url + BATCH, data=body(number), headers=NDJSON) as answer:
            async for line in answer.content:
                last = line
        assert json.loads(last)["jobs"] == number

    await run(1_000)
    tracemalloc.start()
    try:
        await run(2_000)
        _, small = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        await run(8_000)
        _, large = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert large < small * 1.5
