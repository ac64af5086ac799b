"""Health, statistics and failures over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.conftest import Api, Make, serving
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Every, Fail, Retry, Scheduler
from mainspring.model.views.health import DEGRADED, HEALTHY, UNHEALTHY, judge
from mainspring.model.workers import WorkerStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WORKER = WorkerStatus("w", running=1, concurrency=10, beat_at=NOW)


def register(scheduler: Scheduler) -> None:
    @scheduler.job("mail.send")
    async def send() -> str:
        return "sent"

    @scheduler.job("report", queue="slow", retry=1)
    async def report(password: str = "") -> None:
        raise Fail("no paper, and the password is " + password)


async def run_some(api: Api) -> None:
    register(api.scheduler)
    await api.scheduler.start()
    jobs = [await api.scheduler.schedule("mail.send") for _ in range(3)]
    jobs += [await api.scheduler.schedule("report", {"password": f"hunter{number}"}) for number in range(2)]
    for job in jobs:
        await api.scheduler.wait(job.id, timeout=60)


async def counted(api: Api, executions: int) -> Any:
    async def told() -> Any:
        data = (await api.get("/api/observability/stats")).data
        return data if data["executions"]["total"] == executions else None

    return await eventually(told)


async def test_the_health_of_a_running_scheduler_has_the_documented_shape(api: Api) -> None:
    register(api.scheduler)
    await api.scheduler.start()
    reply = await api.get("/api/observability/health")
    assert reply.status == 200
    assert (reply.body["success"], reply.body["status"], reply.body["reasons"]) == (True, "healthy", [])
    assert reply.body["timestamp"].endswith("Z")
    assert reply.body["scheduler"] == {
        "isRunning": True,
        "runningJobs": 0,
        "maxConcurrentJobs": 10,
        "pollInterval": 200,
    }
    assert (reply.body["live"], reply.body["ready"], reply.body["database"]) == (True, True, True)
    assert [worker["queues"] for worker in reply.body["workers"]] == [None]


async def test_without_a_worker_the_scheduler_is_degraded_and_says_why(api: Api) -> None:
    reply = await api.get("/api/observability/health")
    assert (reply.status, reply.body["status"], reply.body["scheduler"]["isRunning"]) == (200, "degraded", False)
    assert "No worker is alive" in reply.body["reasons"][0]


async def test_what_is_long_due_with_nobody_to_take_it_is_unhealthy(api: Api) -> None:
    await api.scheduler.schedule("later", delay=3600)
    assert (await api.get("/api/observability/health")).status == 200
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    await api.scheduler.schedule("work", run_at=long_ago, queue="mail")
    reply = await api.get("/api/observability/health")
    assert reply.status == 200, "it was not there then"
    assert reply.body["progress"]["oldestDueAt"] > reply.body["timestamp"][:10]
    jobs = api.scheduler.client.get_default_database()["jobs"]
    await jobs.update_many({"queue": "mail", "ready": True}, {"$set": {"created_at": long_ago}}, hint="claim")
    reply = await api.get("/api/observability/health")
    assert (reply.status, reply.body["success"], reply.body["status"]) == (503, False, "unhealthy")
    assert reply.body["progress"]["oldestDueQueue"] == "mail"
    await api.scheduler.queues.pause("mail")
    reply = await api.get("/api/observability/health")
    assert (reply.status, reply.body["progress"]["oldestDueAt"]) == (200, None)


async def test_a_schedule_that_nobody_fires_is_unhealthy(api: Api) -> None:
    schedule = await api.scheduler.schedule("work", repeat=Every("1h"), schedule_id="hourly")
    assert schedule.next_at is not None
    schedules = api.scheduler.client.get_default_database()["jobs.schedules"]
    await schedules.update_one({"_id": "hourly"}, {"$set": {"fire_at": datetime.now(UTC) - timedelta(minutes=9)}})
    reply = await api.get("/api/observability/health")
    assert reply.status == 503
    assert "A schedule should have fired" in " ".join(reply.body["reasons"])


@pytest.mark.parametrize(
    ("workers", "due", "lease", "firing", "status"),
    [
        ((WORKER,), None, None, None, HEALTHY),
        ((WORKER,), 30, 10, 30, HEALTHY),
        ((WORKER,), -3600, -60, -60, HEALTHY),
        ((WORKER,), 61, None, None, DEGRADED),
        ((WORKER,), None, 31, None, DEGRADED),
        ((WORKER,), None, None, 61, DEGRADED),
        ((), None, None, None, DEGRADED),
        ((), 30, 10, 30, DEGRADED),
        ((), 61, None, None, UNHEALTHY),
        ((), None, 31, None, UNHEALTHY),
        ((), None, None, 61, UNHEALTHY),
    ],
)
def test_progress_counts_and_not_just_being_up(
    workers: tuple[WorkerStatus, ...], due: int | None, lease: int | None, firing: int | None, status: str
) -> None:
    def ago(seconds: int | None) -> datetime | None:
        return None if seconds is None else NOW - timedelta(seconds=seconds)

    since = ago(due)
    found = judge(NOW, workers, None if since is None else (since, "q"), ago(lease), ago(firing))
    assert (found.status, bool(found.reasons)) == (status, status != HEALTHY)


async def health_is(api: Api, status: int) -> bool:
    return (await api.get("/api/observability/health")).status == status


@pytest.mark.slow
async def test_health_without_mongodb_is_a_503_and_liveness_is_not(make_scheduler: Make) -> None:
    servers = Servers(1)
    servers.start()
    try:
        async with make_scheduler(servers.uri("health")):
            pass  # who is in a hurry finds the indexes made
        scheduler = make_scheduler(servers.uri("health"), operation_timeout=1)
        async with serving(scheduler) as api:
            await eventually(lambda: health_is(api, 200))
            servers.stop()
            reply = await api.get("/api/observability/health")
            assert (reply.status, reply.body["success"]) == (503, False)
            assert (await scheduler.monitor.health()).status == UNHEALTHY
            assert (await api.get("/livez")).status == 200
    finally:
        servers.stop()


async def test_stats_are_counted_by_workers_and_have_the_documented_shape(api: Api) -> None:
    await run_some(api)
    data = await counted(api, 5)
    assert data["executions"] == {"total": 5, "successful": 3, "failed": 2, "last24Hours": 5}
    assert data["scheduler"] == {"isRunning": True, "runningJobs": 0, "maxConcurrentJobs": 10}


@pytest.mark.slow
async def test_a_series_tells_each_step_and_the_sum(api: Api) -> None:
    await run_some(api)
    await counted(api, 5)
    series = (await api.get("/api/stats?step=1m&name=mail.send")).data
    assert (series["step"], len(series["points"]) in (1440, 1441)) == ("1m", True)
    assert (series["total"]["completed"], series["total"]["failed"]) == (3, 0)
    assert sum(point["completed"] for point in series["points"]) == sum(series["durations"]["counts"]) == 3
    assert series["total"]["p99Ms"] is not None
    assert (await api.get("/api/stats?queue=slow")).data["total"]["failed"] == 2
    assert (await api.get("/api/stats?queue=nobody")).data["total"]["started"] == 0


@pytest.mark.parametrize(
    "query",
    [
        "step=1s",
        "step=61s",
        "step=60000",
        "step=soon",
        "step=91377199097643699757901676544s",
        "start=2026-01-01T00:00:00Z&end=2025-01-01T00:00:00Z",
        "start=2020-01-01T00:00:00Z&step=1m",
        "start=2026-01-01T00:00:00",
        "start=9999-12-31T00:00:00Z&end=9999-12-31T23:59:59Z&step=1d",
        "start=tomorrow",
        "name=",
    ],
)
async def test_a_wrong_series_is_refused(api: Api, query: str) -> None:
    assert (await api.get(f"/api/stats?{query}")).status == 422


async def test_the_latest_failures_are_executions_without_secrets(api: Api) -> None:
    await run_some(api)
    found = (await api.get("/api/observability/failures?limit=10")).data
    assert len(found) == 2
    for one in found:
        assert (one["status"], one["attempt"], one["jobId"]) == ("failure", 1, one["runId"])
        assert one["errorMessage"].startswith("no paper")
        assert "hunter" not in str(one)
    assert found[0]["startedAt"] >= found[1]["startedAt"]
    assert len((await api.get("/api/observability/failures?limit=1")).data) == 1
    assert (await api.get("/api/observability/failures?limit=0")).status == 422


async def test_failures_of_jobs_that_are_tried_again_or_succeeded_later_are_told_too(api: Api) -> None:
    mended = False

    @api.scheduler.job("flaky", retry=Retry(attempts=3, delay=0))
    async def flaky() -> None:
        if not mended:
            raise ValueError("not yet")

    @api.scheduler.job("stubborn", retry=Retry(attempts=3, delay=3600))
    async def stubborn(password: str) -> None:
        raise ValueError("the password is " + password)

    await api.scheduler.start()
    dead = await api.scheduler.schedule("flaky")
    assert (await api.scheduler.wait(dead.id, timeout=60)).state == "failed"
    mended = True
    assert (await api.post(f"/api/jobs/{dead.id}/retry")).status == 200
    assert (await api.scheduler.wait(dead.id, timeout=60)).state == "completed"
    waiting = await api.scheduler.schedule("stubborn", {"password": "hunter2"})

    async def told() -> Any:
        found = (await api.get("/api/observability/failures")).data
        return found if len(found) == 4 else None

    found = await eventually(told)
    assert [(one["jobId"], one["attempt"], one["outcome"]) for one in found] == [
        (waiting.id, 1, "retried"),
        *((dead.id, 3, "failed"), (dead.id, 2, "retried"), (dead.id, 1, "retried")),
    ]
    assert "hunter2" not in str(found) and all(one["scheduledAt"] for one in found)


@pytest.mark.slow
async def test_a_key_with_a_scope_sees_its_own_only(api: Api) -> None:
    await run_some(api)
    await counted(api, 5)
    slow = await api.scheduler.api_keys.create("slow", "viewer", queues=["slow"])
    mail = await api.scheduler.api_keys.create("mail", "viewer", prefixes=["mail."])
    for key, total, failures in ((slow, 2, 2), (mail, 3, 0)):
        mine = api.with_key(key.text)
        assert (await mine.get("/api/observability/stats")).data["executions"]["total"] == total
        assert (await mine.get("/api/stats")).data["total"]["started"] == total
        assert len((await mine.get("/api/observability/failures")).data) == failures
        health = (await mine.get("/api/observability/health")).body
        assert (health["status"], health["workers"], health["progress"]) == ("healthy", [], None)
    assert (await api.with_key(mail.text).get("/api/stats?name=report")).data["total"]["started"] == 0


async def test_without_a_key_nothing_is_told_once_there_is_one(api: Api) -> None:
    await api.scheduler.api_keys.create("ops", "viewer")
    for path in ("observability/health", "observability/stats", "observability/failures", "stats", "events"):
        assert (await api.get(f"/api/{path}")).status == 401
