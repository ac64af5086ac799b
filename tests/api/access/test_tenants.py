"""Keys with a scope, two tenants side by side: what is out of a key's reach is not there for it, in any respect."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from api.conftest import Api, Reply, serving
from api.jobs.test_executions import running
from api.views.test_events import reading
from harness.inside import inside
from harness.sinks import Received, Sink, reply
from harness.waiting import eventually
from mainspring import Calendar, Cron, Scheduler
from mainspring.api.endpoints.views import events
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.schedules import views

Make = Callable[..., Scheduler]
YEARLY = "0 0 1 1 *"


@pytest.fixture
async def api(make_scheduler: Make) -> AsyncIterator[Api]:
    scheduler = make_scheduler()
    async with serving(scheduler, requests_per_minute=100_000) as one:
        yield one.with_key((await scheduler.api_keys.create("ops", "admin")).text)


async def tenant(api: Api, role: Any = "operator", **scope: Any) -> Api:
    """The same service, asked with a key that has a scope."""
    return api.with_key((await api.scheduler.api_keys.create("tenant", role, **scope)).text)


async def made_by(scheduler: Scheduler, schedule_id: str) -> str:
    return (await scheduler.schedules.trigger(schedule_id)).id


# -- schedules by their ids --------------------------------------------------------------------------------------------


async def test_executions_under_an_id_that_another_tenant_has_used_are_not_told(api: Api) -> None:
    scheduler = api.scheduler
    await scheduler.schedule("plain", repeat=Cron(YEARLY), schedule_id="nightly", queue="b")
    theirs = await made_by(scheduler, "nightly")
    await scheduler.cancel(theirs)
    await end_with(scheduler, theirs, "CANARY")
    await scheduler.schedules.delete("nightly")
    await scheduler.schedule("plain", repeat=Cron(YEARLY), schedule_id="nightly", queue="a")
    seen = await (await tenant(api, "viewer", queues=["a"])).get("/api/jobs/nightly/executions")
    assert seen.data == [] and "CANARY" not in seen.text
    assert len((await api.get("/api/jobs/nightly/executions")).data) == 1


async def end_with(scheduler: Scheduler, job_id: str, message: str) -> None:
    """Write an attempt that has failed into a job, as a worker would have."""
    attempt = {"number": 1, "token": 1, "outcome": "failed", "worker": "w", "error": {"type": "E", "message": message}}
    await scheduler.client.get_default_database().jobs.update_one({"_id": job_id}, {"$set": {"attempts": [attempt]}})


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_whether_a_foreign_schedule_has_an_id_makes_no_difference_to_choosing_it(api: Api, method: str) -> None:
    await api.scheduler.schedule("plain", repeat=Cron(YEARLY), schedule_id="nightly", queue="b")
    mine = await tenant(api, queues=["a"])

    async def choose(id: str) -> Reply:
        body = {"name": "plain", "queue": "a", "schedule": YEARLY}
        if method == "PUT":
            return await mine.put(f"/api/schedules/{id}", body)
        return await mine.post("/api/jobs", body | {"id": id})

    there, missing = await choose("nightly"), await choose("nothing")
    assert (there.status, there.text) == (missing.status, missing.text) and there.status == 422
    assert "begin with 'a:'" in there.text
    assert (await choose("a:nightly")).status in (200, 201)
    assert (await api.scheduler.schedules.get("nightly")).queue == "b"


async def test_a_tenant_goes_on_changing_a_schedule_that_an_operator_has_made_for_it(api: Api) -> None:
    await api.scheduler.schedule("plain", repeat=Cron(YEARLY), schedule_id="nightly", queue="a")
    mine = await tenant(api, queues=["a"])
    body = {"name": "plain", "queue": "a", "schedule": "0 5 * * *"}
    assert (await mine.put("/api/schedules/nightly", body)).status == 200
    assert (await mine.post("/api/jobs", body | {"id": "nightly", "schedule": "0 6 * * *"})).status == 201


async def test_an_id_of_the_namespace_that_an_operator_uses_elsewhere_is_refused_and_not_replaced(api: Api) -> None:
    await api.scheduler.schedule("plain", repeat=Cron(YEARLY), schedule_id="a:nightly", queue="b")
    mine = await tenant(api, queues=["a"])
    refused = await mine.put("/api/schedules/a:nightly", {"name": "plain", "queue": "a", "schedule": YEARLY})
    assert refused.status == 409
    assert (await api.scheduler.schedules.get("a:nightly")).queue == "b"


@pytest.mark.parametrize(
    ("scope", "good", "bad"),
    [
        ({"prefixes": ["p."]}, ":p.:nightly", "p.:nightly"),
        ({"queues": ["a"], "prefixes": ["p."]}, "a:p.:nightly", "a:nightly"),
        ({"queues": ["a:b"]}, "a%3Ab:nightly", "a:b:nightly"),
        ({"queues": ["a"]}, "a:nightly", "a:b:nightly"),
    ],
)
async def test_each_scope_has_a_namespace_that_no_other_can_write_to(api: Api, scope: Any, good: str, bad: str) -> None:
    mine = await tenant(api, **scope)
    body = {"name": "p.x", "queue": scope.get("queues", ["default"])[0], "schedule": YEARLY}
    assert (await mine.post("/api/jobs", body | {"id": bad})).status == 422
    assert (await mine.post("/api/jobs", body | {"id": good})).data["jobId"] == good


# -- calendars ---------------------------------------------------------------------------------------------------------


async def test_a_foreign_calendar_is_not_there_for_rules_and_previews_either(api: Api) -> None:
    await api.scheduler.calendars.put("theirs", Calendar(days=["2030-12-25"]))
    mine = await tenant(api, queues=["a"])

    def rule(calendar: str) -> dict[str, Any]:
        return {"repeat": {"cron": "0 9 * * *", "calendars": [calendar]}}

    for path, more in (("/api/schedules/preview", {}), ("/api/jobs", {"name": "plain", "queue": "a"})):
        there, missing = [await mine.post(path, rule(name) | more) for name in ("theirs", "nosuch")]
        assert there.status == 404 and there.text.replace("theirs", "nosuch") == missing.text
    assert (await mine.get("/api/calendars")).data == []
    assert (await mine.put("/api/calendars/theirs", {"days": ["2030-01-01"]})).status == 422
    assert (await mine.put("/api/calendars/a:mine", {"days": ["2030-01-01"]})).status == 200
    assert (await mine.post("/api/schedules/preview", rule("a:mine"))).status == 200
    assert [one["name"] for one in (await mine.get("/api/calendars")).data] == ["a:mine"]


# -- what callers bring back -------------------------------------------------------------------------------------------


async def test_a_place_in_the_stream_tells_nothing_and_is_taken_by_another_process(
    api: Api, make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BEAT_EVERY", 0.05)
    mine = await tenant(api, "viewer", queues=["a"])
    async with reading(mine) as client:
        first = client.last_id
        await api.scheduler.schedule("plain", repeat=Cron(YEARLY), schedule_id="SECRETB-customer-29", queue="b")
        await eventually(lambda: client.last_id != first)
        place = client.last_id
        assert place is not None and first is not None
    await api.scheduler.schedule("own", queue="a")
    for text in (first, place):
        assert b"SECRETB" not in urlsafe_b64decode(text + "==") and b"SECRETB".hex() not in text.lower()
    async with serving(make_scheduler()) as other, reading(other.with_key(key_of(mine)), after=first) as again:
        await again.until(1)
    assert [one.data["name"] for one in again.events] == ["own"]


def key_of(api: Api) -> str:
    return api.headers["Authorization"].removeprefix("Bearer ")


async def test_a_place_of_the_database_itself_is_refused(api: Api) -> None:
    changes = api.scheduler.monitor.follow(beat=60)
    place = (await anext(changes)).id
    await changes.aclose()  # type: ignore[attr-defined]
    assert (await api.get("/api/events", headers={"Last-Event-ID": place})).status == 422


async def test_a_cursor_names_nothing_that_is_out_of_reach(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "SCANNED", 2)
    for number in range(3):
        await api.scheduler.schedule("x", repeat=Cron(YEARLY), schedule_id=f"SECRETB-{number}", queue="b")
    await api.scheduler.schedule("x", repeat=Cron(YEARLY), schedule_id="zzz", queue="a")
    mine = await tenant(api, "viewer", queues=["a"])
    page = await mine.get("/api/schedules")
    cursor = page.body["next"]
    assert (page.data, page.body["complete"]) == ([], False)
    assert b"SECRETB" not in urlsafe_b64decode(cursor + "==")
    assert [one["id"] for one in (await mine.get(f"/api/schedules?cursor={cursor}")).data] == ["zzz"]
    assert (await mine.get("/api/schedules?cursor=SECRETB-1")).status == 422
    assert (await mine.get(f"/api/jobs/search?cursor={cursor}")).status == 422


# -- dedupe keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/jobs", "/api/jobs/bulk"])
async def test_dedupe_keys_of_tenants_do_not_meet(api: Api, path: str) -> None:
    first, second = await tenant(api, queues=["a"]), await tenant(api, queues=["b"])
    body = {"name": "x", "dedupeKey": "invoice-4711", "delay": "36d"}

    async def make(caller: Api, **more: Any) -> str:
        given: Any = body | more
        reply = await caller.post(path, given if path == "/api/jobs" else [given])
        made: str = reply.data["jobId"] if path == "/api/jobs" else json.loads(reply.text)["jobId"]
        return made

    made = [await make(first, queue="a"), await make(second, queue="b"), await make(api)]
    assert len(set(made)) == 3
    again = [await make(first, queue="a"), await make(second, queue="b"), await make(api)]
    assert again == made
    assert {(await api.scheduler.get_job(one)).dedupe_key for one in made} == {"invoice-4711"}
    assert (await first.get(f"/api/jobs/{made[0]}/detail")).data["dedupeKey"] == "invoice-4711"


async def test_keys_of_one_tenant_share_their_dedupe_keys(api: Api) -> None:
    narrow, wide = await tenant(api, queues=["a"]), await tenant(api, queues=["b", "a"])
    body = {"name": "x", "queue": "a", "dedupeKey": "k", "delay": "1h"}
    made = await narrow.post("/api/jobs", body)
    again = await wide.post("/api/jobs", body)
    assert (again.status, again.data["jobId"]) == (200, made.data["jobId"])


@pytest.mark.parametrize("other", [{"name": "y"}, {"name": "x", "queue": "elsewhere"}])
async def test_a_dedupe_key_that_another_name_or_queue_holds_is_a_conflict_for_every_caller(
    api: Api, other: dict[str, str]
) -> None:
    held = await api.post("/api/jobs", {"name": "x", "queue": "a", "dedupeKey": "k", "delay": "1h"})
    refused = await api.post("/api/jobs", other | {"dedupeKey": "k"})
    assert (refused.status, held.data["jobId"] in refused.text) == (409, False)
    line = json.loads((await api.post("/api/jobs/bulk", [other | {"dedupeKey": "k"}])).text)
    assert line["error"]["status"] == 409


async def test_an_ended_job_whose_dedupe_key_a_foreign_job_holds_is_refused_without_its_id(api: Api) -> None:
    job = await api.scheduler.schedule("x", queue="a", dedupe_key="k")
    await api.scheduler.cancel(job.id)
    theirs = await api.scheduler.schedule("x", queue="b", dedupe_key="k", delay=3600)
    refused = await (await tenant(api, queues=["a"])).post(f"/api/jobs/{job.id}/retry")
    assert (refused.status, theirs.id in refused.text) == (422, False)
    assert theirs.id in (await api.post(f"/api/jobs/{job.id}/retry")).text


# -- limits and breakers of webhooks -----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_tenant_neither_opens_the_breaker_of_another_nor_eats_its_slots(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    async with Sink(answers=[by_path]) as sink, running(scheduler) as open_api:
        api = open_api.with_key((await scheduler.api_keys.create("ops", "admin")).text)
        first, second = await tenant(api, queues=["a"]), await tenant(api, queues=["b"])
        bad = {"endpoint": f"{sink.url}/bad", "queue": "a", "retryAttempts": 0}
        for _ in range(12):
            await first.post("/api/jobs", bad)

        async def opened(caller: Api) -> list[str]:
            return [one["queue"] for one in (await caller.get("/api/breakers")).data if one["state"] == "open"]

        async def is_open() -> bool:
            return await opened(first) == ["a"]

        await eventually(is_open)
        made = (await second.post("/api/jobs", {"endpoint": f"{sink.url}/ok", "queue": "b"})).data
        assert (await scheduler.wait(made["jobId"], timeout=60)).state == "completed"
        assert (await opened(second), await opened(api)) == ([], ["a"])
        (breaker,) = (await first.get("/api/breakers")).data
        close = {"queue": "a", "key": {"target": breaker["value"]}}
        path = "/api/breakers/name/mainspring:http/close"
        assert (await second.post(path, close)).status == 404
        assert (await first.post(path, close)).data["state"] == "closed"
    gates = [
        {one.name for one in inside(scheduler).limits.gates_of(StoredJob(webhook(queue)))} for queue in ("a", "b", "a")
    ]
    assert gates[0] == gates[2] and not gates[0] & gates[1]


async def by_path(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(200 if request.path == "/ok" else 500))


def webhook(queue: str) -> dict[str, Any]:
    return {"name": "mainspring:http", "queue": queue, "data": {"target": "http://victim.test:80"}}


# -- explanations ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_an_explanation_counts_what_is_out_of_reach_and_names_nothing_of_it(api: Api) -> None:
    scheduler, go = api.scheduler, asyncio.Event()

    @scheduler.job("slow", concurrency=1, sequence="order")
    async def slow(order: int) -> None:
        await go.wait()

    @scheduler.job("slower")
    async def slower() -> None: ...

    async with scheduler:
        theirs = await scheduler.schedule("slow", {"order": 1}, queue="b")
        await eventually(lambda: is_running(scheduler, theirs.id))
        await api.post("/api/pauses", {"queue": "a", "reason": "CANARY-pause"})
        await api.put("/api/limits/name/slow", {"concurrency": 1, "reason": "CANARY-limit"})
        own = await scheduler.schedule("slow", {"order": 1}, queue="a")
        lost = await scheduler.schedule("slowe", queue="a", delay=0)
        mine = await tenant(api, "viewer", queues=["a"])
        told = await mine.get(f"/api/jobs/{own.id}/explain")
        by_kind = {gate["kind"]: gate for gate in told.data["gates"]}
        assert (by_kind["concurrency"]["data"]["holders"], by_kind["concurrency"]["data"]["more_holders"]) == ([], 1)
        assert "another job has to end first" in by_kind["sequence"]["text"]
        assert by_kind["queue_paused"]["data"]["actor"] is None and by_kind["queue_paused"]["data"]["reason"] == ""
        texts = [told.text, (await mine.get(f"/api/jobs/{lost.id}/explain")).text]
        for path in (f"/api/jobs/{own.id}", f"/api/jobs/{own.id}/detail", "/api/pauses", "/api/limits", "/api/queues"):
            texts.append((await mine.get(path)).text)
        whole = await api.get(f"/api/jobs/{own.id}/explain")
        admin, worker = (await api.get("/api/session")).data["actor"], str(scheduler.workers.own_id)
        go.set()
    for canary in (theirs.id, worker, admin, "CANARY", "Did you mean"):
        assert not [text for text in texts if canary in text], canary
    assert all(canary in whole.text for canary in (theirs.id, worker, admin, "CANARY-pause", "CANARY-limit"))


async def is_running(scheduler: Scheduler, job_id: str) -> bool:
    return (await scheduler.get_job(job_id)).state == "running"


async def test_a_job_names_no_worker_and_no_parent_out_of_reach(api: Api) -> None:
    scheduler = api.scheduler
    scheduler.job("x")(lambda: None)
    theirs, own = await scheduler.schedule("x", queue="b"), await scheduler.schedule("x", queue="a")
    children = [await scheduler.schedule("x", queue="a", parent_id=one.id) for one in (theirs, own)]
    async with scheduler:
        for child in children:
            await scheduler.wait(child.id, timeout=60)
        worker = str(scheduler.workers.own_id)
    mine = await tenant(api, "viewer", queues=["a"])
    details = [(await mine.get(f"/api/jobs/{child.id}/detail")).data for child in children]
    assert [one["parentId"] for one in details] == [None, own.id]
    for path in ("/api/jobs/search", "/api/jobs"):
        found = {one["id"]: one["parentId"] for one in (await mine.get(path)).data}
        assert found == {own.id: None, children[0].id: None, children[1].id: own.id}
    for path in ("", "/detail", "/executions", "/wait"):
        assert worker not in (await mine.get(f"/api/jobs/{children[0].id}{path}")).text
    assert worker in (await api.get(f"/api/jobs/{children[0].id}/executions")).text
