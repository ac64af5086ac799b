"""The overview and the comparison of names over HTTP."""

from __future__ import annotations

from typing import Any

from api.conftest import Api
from harness.waiting import eventually
from mainspring import Fail


async def failing(api: Api) -> None:
    @api.scheduler.job("mail.send", retry=1, queue="mail")
    async def send() -> None:
        raise Fail("no paper")

    await api.scheduler.start()
    for job in [await api.scheduler.schedule("mail.send") for _ in range(3)]:
        await api.scheduler.wait(job.id, timeout=60)


async def told(api: Api, kind: str) -> dict[str, Any]:
    async def found() -> Any:
        problems = (await api.get("/api/overview")).data["problems"]
        return next((one for one in problems if one["kind"] == kind), None)

    problem: dict[str, Any] = await eventually(found)
    return problem


async def test_a_problem_has_a_sentence_a_target_and_a_cure_that_works(api: Api) -> None:
    await failing(api)
    problem = await told(api, "failing")
    assert (problem["severity"], problem["count"], problem["capped"]) == ("warning", 3, False)
    assert problem["target"]["kind"] == "name" and problem["target"]["id"] == "mail.send"
    (cure,) = problem["cures"]
    assert cure["verb"] == "retry_dead_letters"
    groups = (await api.get("/api/dead-letters/groups")).data
    assert [group["fingerprint"] for group in groups] == [cure["target"]["id"]]


async def test_a_pause_is_told_with_actor_and_reason_to_a_caller_that_may_know_them(api: Api) -> None:
    body = {"queue": "mail", "key": {"tenant": "acme"}, "reason": "a dispute"}
    assert (await api.post("/api/pauses", body)).status == 201
    problem = await told(api, "paused")
    assert problem["target"] | {"name": None} == {
        "kind": "queue",
        "id": "mail",
        "scope": "queue",
        "queue": None,
        "name": None,
        "key": {"tenant": "acme"},
    }
    assert problem["reason"] == "a dispute" and problem["actor"]
    key = await api.scheduler.api_keys.create("mail", "viewer", queues=["mail"])
    seen = await told(api.with_key(key.text), "paused")
    assert (seen["text"], seen["reason"], seen["actor"]) == (problem["text"], None, None)


async def test_names_are_listed_by_failures_run_times_or_numbers(api: Api) -> None:
    await failing(api)
    await told(api, "failing")
    for order in ("failing", "slowest", "busiest"):
        found = (await api.get(f"/api/stats/names?order={order}")).data
        assert [(one["name"], one["failed"], one["before"]["failed"]) for one in found["names"]] == [
            ("mail.send", 3, 0)
        ]
    assert (await api.get("/api/stats/names?order=worst")).status == 422
    assert (await api.get("/api/stats/names?limit=1000")).status == 422


async def test_a_series_has_waits_and_a_step_that_suits_its_length(api: Api) -> None:
    await failing(api)
    await told(api, "failing")
    series = (await api.get("/api/stats")).data
    assert (series["step"], len(series["points"]) in (144, 145)) == ("10m", True)
    assert sum(series["waits"]["counts"]) == series["total"]["started"] == 3
    assert series["total"]["waitP50Ms"] is not None and series["deploys"] == []
    assert {"oldestWaitingMs", "waitP99Ms"} <= set(series["points"][0])
