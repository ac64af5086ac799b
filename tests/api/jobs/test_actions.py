"""What is done to one job over HTTP, and all there is to be seen of it."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from api.conftest import Api
from harness.api_keys import actions, keyed
from mainspring import Every, Fail, Job, JobContext

MISSING = "6890b1f2c7a4e1d2f3a4b5c6"


async def failed(api: Api, name: str = "bad") -> str:
    @api.scheduler.job(name, retry=1)
    def bad(**data: Any) -> None:
        raise Fail("no luck with " + str(data.get("password")))

    await api.scheduler.start()
    job: Job = await api.scheduler.schedule(name)
    await api.scheduler.wait(job.id, 60)
    return job.id


async def test_a_pending_job_is_cancelled_with_a_reason(api: Api) -> None:
    job = await api.scheduler.schedule("x", delay=60)
    reply = await api.post(f"/api/jobs/{job.id}/cancel", {"reason": "not needed"})
    assert (reply.data["state"], reply.data["error"]["message"]) == ("cancelled", "not needed")
    assert await actions(api) == [("job.cancel", job.id)]
    (row,) = await api.scheduler.audit.find()
    assert (row.value_before()["state"], row.value_after()["state"]) == ("pending", "cancelled")
    assert (await api.post(f"/api/jobs/{job.id}/cancel", {})).data["state"] == "cancelled"


async def test_a_failed_job_is_run_again_and_a_pending_one_is_not(api: Api) -> None:
    job_id = await failed(api)
    reply = await api.post(f"/api/jobs/{job_id}/retry", {})
    assert (reply.data["id"], reply.data["finishedAt"]) == (job_id, None)
    waiting = await api.scheduler.schedule("x", delay=60)
    refused = await api.post(f"/api/jobs/{waiting.id}/retry", {})
    assert (refused.status, refused.body["status"]) == (409, 409)
    assert await actions(api) == [("job.retry", job_id)]


async def test_a_pending_job_is_made_due_and_an_ended_one_is_not(api: Api) -> None:
    job = await api.scheduler.schedule("x", delay=3600)
    reply = await api.post(f"/api/jobs/{job.id}/run", {})
    assert reply.data["runAt"] < job.run_at.isoformat()
    await api.scheduler.cancel(job.id)
    assert (await api.post(f"/api/jobs/{job.id}/run", {})).status == 409
    assert await actions(api) == [("job.run", job.id)]


async def test_a_job_explains_why_it_waits(api: Api) -> None:
    job = await api.scheduler.schedule("x", delay=3600)
    data = (await api.get(f"/api/jobs/{job.id}/explain")).data
    assert (data["job"]["id"], data["holding"]) == (job.id, "time")
    assert next(gate for gate in data["gates"] if gate["kind"] == "time")["open"] is False


async def test_whoever_waits_is_answered_at_the_end_or_when_the_time_is_up(api: Api) -> None:
    @api.scheduler.job("slow")
    async def slow() -> dict[str, int]:
        await going.wait()
        return {"n": 1}

    going = asyncio.Event()
    await api.scheduler.start()
    job = await api.scheduler.schedule("slow")
    early = await api.get(f"/api/jobs/{job.id}/wait?timeout=50ms")
    assert (early.status, early.data["id"]) == (202, job.id)
    waiting = asyncio.create_task(api.get(f"/api/jobs/{job.id}/wait?timeout=20s"))
    await asyncio.sleep(0)
    going.set()
    reply = await waiting
    assert (reply.status, reply.data["state"], reply.data["result"]) == (200, "completed", {"n": 1})
    assert (await api.get(f"/api/jobs/{job.id}/wait")).status == 200


async def test_a_job_is_shown_in_all_detail_and_without_secrets(api: Api) -> None:
    @api.scheduler.job("steps", retry=1)
    async def steps(ctx: JobContext) -> None:
        await ctx.step("one", lambda: {"token": "abcdef123", "n": 1})
        ctx.log("the password is hunter2-hunter2")
        raise Fail("wrong password hunter2-hunter2")

    await api.scheduler.start()
    job = await api.scheduler.schedule("steps", {"password": "hunter2-hunter2"})
    await api.scheduler.wait(job.id, 60)
    reply = await api.get(f"/api/jobs/{job.id}/detail")
    data = reply.data
    assert data["data"] == {"password": "[redacted]"}
    assert [(one["outcome"], one["number"]) for one in data["attempts"]] == [("failed", 1)]
    assert data["attempts"][0]["log"] and data["attempts"][0]["error"]["message"]
    assert data["steps"][0]["result"] == {"token": "[redacted]", "n": 1}
    assert "hunter2" not in reply.text and "abcdef123" not in reply.text


VERBS = [("POST", "cancel"), ("POST", "retry"), ("POST", "run")]
VIEWS = [("GET", "explain"), ("GET", "wait?timeout=0s"), ("GET", "detail")]


@pytest.mark.parametrize(("method", "verb"), VERBS + VIEWS)
async def test_a_job_that_is_not_there_or_not_ones_own_is_not_found(api: Api, method: str, verb: str) -> None:
    foreign = await api.scheduler.schedule("other.x", delay=60)
    own = await api.scheduler.schedule("acme.x", queue="a", delay=60)
    tenant = await keyed(api, "operator", queues=["a"], prefixes=["acme."])
    for job_id in (MISSING, "no-such-id", foreign.id):
        assert (await tenant.call(method, f"/api/jobs/{job_id}/{verb}", json={})).status == 404
    assert await actions(api) == []
    assert (await api.scheduler.get_job(foreign.id)) == foreign
    assert (await tenant.call(method, f"/api/jobs/{own.id}/{verb}", json={})).status in (200, 202, 409)


@pytest.mark.parametrize(("method", "verb"), VERBS)
async def test_a_viewer_changes_nothing(api: Api, method: str, verb: str) -> None:
    job = await api.scheduler.schedule("x", delay=60)
    viewer = await keyed(api, "viewer")
    assert (await viewer.call(method, f"/api/jobs/{job.id}/{verb}", json={})).status == 403
    assert await api.scheduler.get_job(job.id) == job


async def test_unknown_fields_and_wrong_values_are_refused(api: Api) -> None:
    job = await api.scheduler.schedule("x", delay=60)
    for body in ({"reason": "r", "state": "failed"}, {"reason": {"$ne": None}}, {"reason": "r" * 1001}):
        for verb in ("cancel", "retry", "run"):
            assert (await api.post(f"/api/jobs/{job.id}/{verb}", body)).status == 422
    for timeout in ("61s", "60", "soon"):
        assert (await api.get(f"/api/jobs/{job.id}/wait?timeout={timeout}")).status == 422
    assert await api.scheduler.get_job(job.id) == job


async def test_the_job_of_a_firing_is_reached_by_its_id(api: Api) -> None:
    schedule = await api.scheduler.schedule("x", repeat=Every("1h"), schedule_id="team/hourly")
    job = await schedule.trigger()
    assert (await api.get(f"/api/jobs/{job.id}/detail")).data["scheduleId"] == "team/hourly"


async def test_a_schedule_and_its_job_are_shown_changed_and_deleted_by_ids_with_slashes(api: Api) -> None:
    await api.post("/api/jobs", {"name": "x", "every": "1h", "id": "team/hourly"})
    job = (await api.post("/api/schedules/team/hourly/trigger")).data
    for thing_id, kind in ((job["id"], "job"), ("team/hourly", "schedule")):
        for path in (f"/api/jobs/{thing_id}", f"/api/jobs/{quote(thing_id, safe='')}"):
            assert (await api.get(path)).data["kind"] == kind
            assert (await api.get(f"{path}/executions")).data == []
            assert (await api.put(path, {"priority": 2})).data["priority"] == 2
        assert (await api.delete(path)).data["jobId"] == thing_id
        assert (await api.get(path)).status == 404
