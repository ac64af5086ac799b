"""A job and a schedule have the same fields on all paths: `/api/jobs` adds the older names and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from bson import ObjectId
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from api.conftest import Api, serving
from harness.api_keys import keyed
from harness.looking import Database
from harness.profiling import profiled
from harness.waiting import eventually
from mainspring import Every, JobContext, Scheduler
from mainspring.api.wire.compat import JobResource, ScheduleResource
from mainspring.api.wire.jobs import JobOut
from mainspring.api.wire.schedules import ScheduleOut

Make = Callable[..., Scheduler]
Thing = dict[str, Any]
KEYS = {"k": "A" * 43 + "="}
LATER = "2126-01-01T12:00:00Z"
HOOK = {
    "endpoint": "https://api.example.com/{{data.user}}",
    "headers": {"Authorization": "Bearer canary"},
    "query": {"q": "1"},
    "body": {"order": 17},
    "data": {"user": "ann"},
}

DAILY = {"schedule": "0 9 * * *"}
MAIL = {"to": "a@example.com", "body": "hi"}


def shared(thing: Thing, model: type[BaseModel]) -> Thing:
    """The fields of a thing that a model has, by their names on the wire."""
    names = {to_camel(name) for name in model.model_fields}
    return {name: value for name, value in thing.items() if name in names}


async def listed(api: Api) -> dict[str, Thing]:
    """What the list has, by id."""
    return {one["id"]: one for one in (await api.get("/api/jobs?limit=100")).data}


@pytest.mark.parametrize(("whole", "part"), [(JobResource, JobOut), (ScheduleResource, ScheduleOut)])
def test_no_field_has_another_type_in_the_list(whole: type[BaseModel], part: type[BaseModel]) -> None:
    types = {name: field.annotation for name, field in whole.model_fields.items()}
    assert {name: types.get(name) for name in part.model_fields} == {
        name: field.annotation for name, field in part.model_fields.items()
    }


# -- jobs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def jobs(make_scheduler: Make) -> AsyncIterator[tuple[Api, dict[str, str]]]:
    """A service, and the ids of its jobs by what is special about them."""
    scheduler = make_scheduler(keys=KEYS)
    go = asyncio.Event()

    @scheduler.job("slow", timeout="1h")
    async def slow(ctx: JobContext) -> None:
        await ctx.progress(50, "half")
        await go.wait()

    @scheduler.job("fail", retry=1)
    async def fail(**data: Any) -> None:
        raise ValueError("no luck")

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> None:
        await ctx.call("child", "later", delay=3600)

    scheduler.job("later")(lambda: None)
    scheduler.job("work")(lambda **data: {"done": [1, 2]})
    async with serving(scheduler) as api, scheduler:
        schedule, post = scheduler.schedule, api.post
        ids = {
            "pending": (await schedule("work", {"n": 1}, delay=600, tags=["a"], dedupe_key="d", timeout=5)).id,
            "running": (await schedule("slow", guarantee="at_most_once")).id,
            "failed": (await schedule("fail", {"n": 2})).id,
            "completed": (await schedule("work", {"n": 3})).id,
            "blocked": (await schedule("parent")).id,
            "encrypted": (await schedule("work", {"card": "canary", "n": 4}, encrypt=["card"], delay=600)).id,
            "all encrypted": (await schedule("work", {"card": "canary"}, encrypt=True, delay=600)).id,
            "webhook": (await post("/api/jobs", {**HOOK, "runAt": LATER})).data["id"],
            "hidden webhook": (await post("/api/jobs", {**HOOK, "runAt": LATER, "encrypt": True})).data["id"],
            "mail": (await post("/api/jobs", {"type": "email", "data": MAIL, "runAt": LATER})).data["id"],
        }
        ids["child"] = f"{ids['blocked']}.child"
        await eventually(lambda: _settled(api, ids))
        yield api, ids
        go.set()


async def _settled(api: Api, ids: dict[str, str]) -> bool:
    for state in ("running", "failed", "completed", "blocked"):
        found = await api.scheduler.get_job(ids[state])
        if found.state != state or (state == "running" and found.progress is None):
            return False
    return True


async def test_a_job_of_the_list_has_every_field_of_a_job_with_the_same_value(
    jobs: tuple[Api, dict[str, str]],
) -> None:
    api, ids = jobs
    found = {one["id"]: one for one in (await api.get("/api/jobs/search?limit=100")).data}
    rows = await listed(api)
    assert set(found) == set(ids.values()) and set(rows) == {*found} - {ids["child"]}, (
        "the list has roots of flows only"
    )
    for kind, id in ids.items():
        one, detail = [(await api.get(f"/api/jobs/{id}{path}")).data for path in ("", "/detail")]
        detail["error"] = detail["error"] and detail["error"] | {"stack": None, "details": None}
        expected = shared(found[id], JobOut)
        assert len(expected) == len(JobOut.model_fields), kind
        assert [shared(thing, JobOut) for thing in (one, rows.get(id, one), detail)] == [expected] * 3, kind
    assert "canary" not in str(rows)


async def test_a_job_of_the_list_has_the_older_names_too(jobs: tuple[Api, dict[str, str]]) -> None:
    api, ids = jobs
    rows = {kind: (await api.get(f"/api/jobs/{id}")).data for kind, id in ids.items()}
    for one in rows.values():
        assert one["_id"] == one["jobId"] == one["id"] and one["kind"] == "job" and one["enabled"] is True
        assert (one["schedule"], one["every"], one["timezone"], one["maxRuns"], one["runs"]) == (None,) * 5
    assert (rows["failed"]["attempts"], rows["failed"]["tries"]) == (1, 1)
    assert (rows["failed"]["error"]["type"], rows["failed"]["error"]["message"]) == ("ValueError", "no luck")
    assert rows["pending"]["nextRunAt"] == rows["pending"]["runAt"] and rows["running"]["nextRunAt"] is None
    assert rows["running"]["lastRunAt"] == rows["running"]["startedAt"]
    assert rows["running"]["executionType"] == "AT_MOST_ONCE"
    hook = rows["webhook"]
    assert (hook["type"], hook["endpoint"], hook["method"]) == ("http", HOOK["endpoint"], "POST")
    assert (hook["query"], hook["body"], hook["data"]["data"]) == (HOOK["query"], HOOK["body"], HOOK["data"])
    assert hook["data"]["request"]["headers"] == hook["headers"] == {"Authorization": "[redacted]"}
    assert rows["hidden webhook"]["endpoint"] is None and rows["mail"]["type"] == "email"
    assert "MAINSPRING_SMTP_URL" in rows["mail"]["waiting"]


async def test_data_of_a_webhook_that_is_sent_back_as_it_was_shown_stays(api: Api) -> None:
    made = (await api.post("/api/jobs", {**HOOK, "runAt": LATER})).data
    before = (await api.scheduler.get_job(made["id"])).data
    changed = (await api.put(f"/api/jobs/{made['id']}", {"data": made["data"], "priority": 2})).data
    assert (changed["priority"], changed["data"]) == (2, made["data"])
    assert (await api.scheduler.get_job(made["id"])).data == before
    changed = (await api.put(f"/api/jobs/{made['id']}", {"data": {"user": "bob"}})).data
    assert (changed["data"]["data"], changed["endpoint"]) == ({"user": "bob"}, HOOK["endpoint"])
    changed = (await api.put(f"/api/jobs/{made['id']}", {"data": {**made["data"], "data": {"user": "eve"}}})).data
    assert (changed["data"]["data"], changed["data"]["request"]) == ({"user": "eve"}, made["data"]["request"])
    other = {**made["data"], "request": {**made["data"]["request"], "url": "https://other.example.com"}}
    refused = await api.put(f"/api/jobs/{made['id']}", {"data": other})
    assert refused.status == 422 and "endpoint, method, headers, query and body" in refused.body["detail"]
    assert (await api.get(f"/api/jobs/{made['id']}")).data["data"] == changed["data"]


# -- schedules -----------------------------------------------------------------------------------------------------


async def test_a_schedule_of_the_list_has_every_field_of_a_schedule_with_the_same_value(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys=KEYS)

    @scheduler.job("fail", retry=1)
    async def fail(**data: Any) -> None:
        raise ValueError("no luck")

    async with serving(scheduler) as api, scheduler:
        await api.put("/api/schedules/failing", {"name": "fail", "every": 200, "pauseAfter": 1})
        await api.put("/api/schedules/hook", {**HOOK, **DAILY, "timezone": "Asia/Kolkata", "maxRuns": 3})
        await api.put("/api/schedules/paused", {"name": "fail", "every": "1h", "jitter": "5m", "tags": ["a"]})
        await api.post("/api/schedules/paused/pause", {"reason": "moving house"})
        await scheduler.schedule("fail", {"card": "canary"}, repeat=Every("1h"), schedule_id="secret", encrypt=["card"])
        nodes = [{"job": "fail", "name": "a"}, {"job": "fail", "name": "b", "after": ["a"]}]
        made = (await api.post("/api/flows", {"name": "flow", "id": "flow", **DAILY, "nodes": nodes})).data
        await eventually(lambda: _has_failed(api))
        rows = await listed(api)
        expected = {id: (await api.get(f"/api/schedules/{id}")).data for id in rows}
        alone = {id: (await api.get(f"/api/jobs/{id}")).data for id in rows}
    assert set(rows) == {"failing", "hook", "paused", "secret", "flow"} and "canary" not in str(rows)
    assert (rows["failing"]["lastState"], rows["failing"]["failing"]) == ("failed", True)
    for id, one in expected.items():
        assert len(one) == len(ScheduleOut.model_fields), id
        assert shared(rows[id], ScheduleOut) == shared(alone[id], ScheduleOut) == one, id
        older = rows[id]
        assert older["_id"] == older["jobId"] == id and older["kind"] == "schedule"
        assert (older["nextRunAt"], older["lastRunAt"]) == (one["nextAt"], one["lastAt"])
        assert (older["runAt"], older["finishedAt"], older["result"], older["attempts"]) == (None, None, None, 0)
    assert shared(made, ScheduleOut).keys() == expected["flow"].keys(), "POST /api/flows answers with a schedule"
    hook, paused = rows["hook"], rows["paused"]
    assert (hook["schedule"], hook["timezone"], hook["maxRuns"]) == (DAILY["schedule"], "Asia/Kolkata", 3)
    assert (hook["endpoint"], paused["enabled"], paused["every"]) == (HOOK["endpoint"], False, 3_600_000)


async def _has_failed(api: Api) -> bool:
    found = (await api.get("/api/schedules/failing")).data
    return (found["state"], found["lastState"]) == ("paused", "failed")


# -- keys with a scope ---------------------------------------------------------------------------------------------


async def test_a_key_with_a_scope_sees_no_job_flow_or_worker_out_of_its_reach_in_the_list(
    api: Api, db: Database
) -> None:
    schedule = api.scheduler.schedule
    theirs, own = [(await schedule("x", queue=queue, delay=600)).id for queue in ("b", "a")]
    children = {one: (await schedule("x", queue="a", delay=600)).id for one in (theirs, own)}
    for relative, child in children.items():
        named: Thing = {"parent_id": relative, "flow": relative, "node": "n", "because": relative}
        named |= {"worker": "CANARY-worker", "waiting_for": {"by": "limit", "note": "CANARY-note"}}
        await db.jobs.update_one({"_id": ObjectId(child)}, {"$set": named})
    mine, admin = await keyed(api, "operator", queues=["a"]), await keyed(api)
    hidden, seen = children[theirs], children[own]
    changed = {id: (await mine.put(f"/api/jobs/{id}", {"priority": 3})) for id in (hidden, seen)}
    for rows in (await listed(mine), {id: (await mine.get(f"/api/jobs/{id}")).data for id in (hidden, seen)}):
        assert _relatives(rows[hidden]) == {None} and _relatives(rows[seen]) == {own}
        assert theirs not in str(rows) and "CANARY" not in str(rows)
    assert theirs not in changed[hidden].text and "CANARY" not in changed[hidden].text + changed[seen].text
    assert _relatives(changed[hidden].data) == {None} and _relatives(changed[seen].data) == {own}
    whole = await listed(admin)
    assert _relatives(whole[hidden]) == {theirs} and "CANARY-worker" in str(whole)


def _relatives(job: Thing) -> set[Any]:
    return {job[name] for name in ("parentId", "flowId", "because")}


async def test_a_key_with_a_scope_sees_no_actor_and_no_reason_of_a_foreign_pause_in_the_list(api: Api) -> None:
    admin, mine = await keyed(api), await keyed(api, "operator", queues=["a"])
    for id, client in (("theirs", admin), ("own", mine)):
        await api.scheduler.schedule("x", queue="a", repeat=Every("1h"), schedule_id=id)
        await client.post(f"/api/schedules/{id}/pause", {"reason": f"reason of {id}"})
    answers = [await mine.get(path) for path in ("/api/jobs", "/api/jobs/theirs")]
    answers.append(await mine.put("/api/jobs/theirs", {"priority": 2}))
    operator = (await admin.get("/api/session")).data["actor"]
    for answer in answers:
        assert "reason of theirs" not in answer.text and operator not in answer.text
    rows, whole = await listed(mine), await listed(admin)
    assert _signature(rows["theirs"]) == ("", None) and not rows["theirs"]["enabled"]
    assert _signature(rows["own"])[0] == "reason of own" and _signature(rows["own"])[1]
    assert _signature(whole["theirs"]) == ("reason of theirs", operator)


def _signature(schedule: Thing) -> tuple[Any, Any]:
    return schedule["paused"]["reason"], schedule["paused"]["actor"]


async def test_a_key_with_a_scope_sees_no_state_of_a_last_job_out_of_its_reach(api: Api, db: Database) -> None:
    await api.scheduler.schedule("x", queue="a", repeat=Every("1h"), schedule_id="s")
    mine, admin = await keyed(api, "viewer", queues=["a"]), await keyed(api)
    for id, queue in (("foreign", "b"), ("own", "a")):
        await db.jobs.insert_one({"_id": id, "v": 1, "name": "x", "queue": queue, "state": "failed"})
        await db["jobs.schedules"].update_one({"_id": "s"}, {"$set": {"last.job": id}})
        states = [(await client.get("/api/jobs/s")).data["lastState"] for client in (mine, admin)]
        assert states == ["failed" if queue == "a" else None, "failed"]


# -- costs ---------------------------------------------------------------------------------------------------------


@pytest.mark.fresh_database
async def test_a_page_reads_the_last_jobs_and_the_relatives_of_all_rows_at_once(api: Api, db: Database) -> None:
    await api.scheduler.schedule("x", queue="a", repeat=Every("1h"), schedule_id="s0")
    (model,) = await db["jobs.schedules"].find({"_id": "s0"}).to_list()
    numbers = range(1, 40)
    await db["jobs.schedules"].insert_many([model | {"_id": f"s{n}", "last": {"job": f"s{n}@1"}} for n in numbers])
    parents = [(await api.scheduler.schedule("x", queue="a", delay=600)).id for _ in range(30)]
    await db.jobs.insert_many([_run(f"s{n}@1", schedule_id=f"s{n}") for n in numbers])
    await db.jobs.insert_many([_run(ObjectId(), parent_id=one) for one in parents])
    mine = await keyed(api, "viewer", queues=["a"])
    async with profiled(db) as spent:
        page = await mine.get("/api/jobs?limit=100")
    assert len(page.data) == 100 and page.status == 200
    assert {one.get("lastState") for one in page.data} >= {"completed"}
    assert spent.keys < 1_000 and spent.scans == 0, spent.statement


def _run(id: Any, **fields: Any) -> Thing:
    return {"_id": id, "v": 1, "name": "x", "queue": "a", "state": "completed", **fields}
