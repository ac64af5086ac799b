"""A job beside others over HTTP: its timeline, its last success, its relatives, and its stack."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import actions, keyed
from harness.waiting import eventually
from mainspring import Every, Fail, JobContext, Snooze
from mainspring.store.views.related import LOOKED_AT


async def done(api: Api, name: str, data: dict[str, Any] | None = None, **options: Any) -> str:
    job = await api.scheduler.schedule(name, data, **options)
    return (await api.scheduler.wait(job.id, 60)).id


async def test_a_failed_job_is_compared_with_the_last_success_of_its_name(api: Api) -> None:
    @api.scheduler.job("charge", retry=1)
    def charge(ctx: JobContext, amount: int, password: str, to: dict[str, Any]) -> int:
        ctx.log(f"charging {to['city']}")
        if amount > 10:
            raise Fail("too much")
        return amount

    @api.scheduler.job("other")
    def other() -> None: ...

    await api.scheduler.start()
    await done(api, "charge", {"amount": 1, "password": "a", "to": {"city": "x"}})
    good = await done(api, "charge", {"amount": 2, "password": "a", "to": {"city": "x"}})
    await done(api, "other")
    bad = await done(api, "charge", {"amount": 20, "password": "b", "to": {"city": "y", "zip": 1}})
    found = (await api.get(f"/api/jobs/{bad}/compare")).data
    assert found["other"]["id"] == good and found["complete"] is True
    assert [(one["path"], one["kind"]) for one in found["data"]] == [
        ("amount", "changed"),
        ("password", "hidden"),
        ("to.city", "changed"),
        ("to.zip", "added"),
    ]
    assert (found["data"][0]["before"], found["data"][0]["after"]) == (2, 20)
    assert found["result"] == [{"path": "", "kind": "changed", "before": 2, "after": None}]
    assert found["before"]["log"] == ["charging x"] and found["after"]["log"] == ["charging y"]
    assert found["before"]["workerVersion"] and found["before"]["duration"] is not None
    lonely = await done(api, "other")
    await api.scheduler.delete(lonely)


async def test_without_an_earlier_success_the_comparison_says_so(api: Api) -> None:
    @api.scheduler.job("once")
    def once() -> None: ...

    await api.scheduler.start()
    only = await done(api, "once")
    found = (await api.get(f"/api/jobs/{only}/compare")).data
    assert (found["other"], found["complete"]) == (None, True)


async def test_a_run_of_a_schedule_is_compared_within_it_and_names_other_runs(api: Api) -> None:
    @api.scheduler.job("tick")
    def tick() -> None: ...

    await api.scheduler.start()
    schedule = await api.scheduler.schedule("tick", repeat=Every("1d"))
    one = await api.scheduler.schedules.trigger(schedule.id)
    two = await api.scheduler.schedules.trigger(schedule.id)
    for job in (one, two):
        await api.scheduler.wait(job.id, 60)
    related = (await api.get(f"/api/jobs/{two.id}/related")).data
    assert [run["id"] for run in related["runs"]] == [one.id]


async def test_relatives_are_the_parent_the_children_and_the_holder_of_the_key(api: Api) -> None:
    @api.scheduler.job("parent")
    async def parent(ctx: JobContext) -> None:
        for _ in range(3):
            await ctx.schedule("child", delay=600)

    await api.scheduler.start()
    old = await api.scheduler.schedule("parent", dedupe_key="k")
    await api.scheduler.wait(old.id, 60)
    new = await api.scheduler.schedule("later", delay=600, dedupe_key="k")
    found = (await api.get(f"/api/jobs/{old.id}/related")).data
    assert [one["name"] for one in found["children"]] == ["child"] * 3 and found["childrenComplete"]
    assert found["holder"]["id"] == new.id and found["parent"] is None
    child = found["children"][0]["id"]
    assert (await api.get(f"/api/jobs/{child}/related")).data["parent"]["id"] == old.id
    scoped = await keyed(api, "viewer", prefixes=["parent"])
    hidden = (await scoped.get(f"/api/jobs/{old.id}/related")).data
    assert hidden["children"] == [] and hidden["holder"] is None


@pytest.mark.slow
async def test_the_detail_has_the_life_of_a_job_with_its_snooze_and_its_retry(api: Api) -> None:
    calls: list[int] = []

    @api.scheduler.job("shy", retry=3)
    def shy() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise Snooze(0.01, "not yet")
        if len(calls) == 2:
            raise OSError("no")

    await api.scheduler.start()
    job = await api.scheduler.schedule("shy", retry=3, delay=0.05)
    await api.scheduler.wait(job.id, 60)
    found = (await api.get(f"/api/jobs/{job.id}/detail")).data
    runs = [(one["outcome"], one["attempt"]) for one in found["timeline"] if one["kind"] == "running"]
    assert runs == [("snoozed", None), ("retried", 1), ("completed", 2)]
    kinds = [one["kind"] for one in found["timeline"]]
    assert kinds[0] == "scheduled" and "snoozed" in kinds and "retry_wait" in kinds
    snooze = next(one for one in found["timeline"] if one["outcome"] == "snoozed")
    assert snooze["note"] == "not yet" and found["now"] >= found["finishedAt"] and found["maxAttempts"] == 3


@pytest.mark.slow
async def test_an_operator_asks_for_a_stack_and_a_viewer_sees_none(api: Api) -> None:
    go = asyncio.Event()

    @api.scheduler.job("wait")
    async def wait() -> None:
        await go.wait()

    await api.scheduler.start()
    job = await api.scheduler.schedule("wait")

    async def asked() -> Any:
        reply = await api.post(f"/api/jobs/{job.id}/stack")
        return reply if reply.status == 202 else None

    reply = await eventually(asked)

    async def answered() -> Any:
        return (await api.get(f"/api/jobs/{job.id}/detail")).data["stack"]

    stack = await eventually(answered)
    assert "in wait" in stack["text"] and stack["stale"] is False and stack["at"] >= reply.data["askedAt"]
    assert ("job.stack", job.id) in await actions(api)
    viewer = await keyed(api, "viewer")
    operator = await keyed(api, "operator")
    assert (await viewer.post(f"/api/jobs/{job.id}/stack")).status == 403
    assert (await viewer.get(f"/api/jobs/{job.id}/detail")).data["stack"] is None
    go.set()
    await api.scheduler.wait(job.id, 60)
    assert (await operator.get(f"/api/jobs/{job.id}/detail")).data["stack"]["stale"] is True
    assert (await operator.post(f"/api/jobs/{job.id}/stack")).status == 409


@pytest.mark.slow
async def test_the_searches_of_a_page_are_bounded_and_say_so(api: Api) -> None:
    @api.scheduler.job("lonely")
    def lonely() -> None: ...

    await api.scheduler.start()
    old = await done(api, "lonely")
    jobs = api.scheduler.client.get_default_database().jobs
    now = api.scheduler.now()
    other = {"v": 1, "name": "other", "queue": "default", "state": "completed", "created_at": now, "run_at": now}
    await jobs.insert_many(
        [{**other, "parent_id": old, "finished_at": now + timedelta(milliseconds=n)} for n in range(LOOKED_AT + 5)]
    )
    late = await api.scheduler.schedule("lonely", delay=60)
    found = (await api.get(f"/api/jobs/{late.id}/compare")).data
    assert (found["other"], found["complete"]) == (None, False)
    related = (await api.get(f"/api/jobs/{old}/related")).data
    assert len(related["children"]) == 20 and not related["childrenComplete"]
