"""`GET /metrics` of the service, and the number of workers that a queue needs, as KEDA reads it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml
from bson import ObjectId
from prometheus_client.parser import text_string_to_metric_families

from api.conftest import Api, serving
from harness.api_keys import keyed
from harness.inside import inside
from harness.pages import ROOT
from harness.waiting import eventually
from mainspring import Scheduler

Make = Callable[..., Scheduler]
KEDA = ROOT / "deploy" / "keda" / "scaledobject.yaml"


async def test_the_service_shows_the_queues_and_the_jobs_that_it_has_stored(api: Api) -> None:
    await api.scheduler.schedule("x", queue="mail")
    reply = await api.get("/metrics")
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, sample.labels.get("queue")): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    }
    assert samples["mainspring_queue_ready_jobs", "mail"] == 1
    assert samples["mainspring_queue_workers", "mail"] == 0
    assert samples["mainspring_jobs_scheduled_total", "mail"] == 1
    assert samples["mainspring_database_up", None] == 1
    assert (await api.get("/metrics", headers={"Accept": "application/openmetrics-text"})).text.endswith("# EOF\n")


async def test_metrics_need_a_key_without_a_scope(api: Api) -> None:
    everything, scoped = await keyed(api, "viewer"), await keyed(api, "viewer", queues=["mail"])
    assert (await everything.get("/metrics")).status == 200
    assert (await scoped.get("/metrics")).status == 403
    api.headers = {}
    assert (await api.get("/metrics")).status == 401


async def test_a_setting_opens_the_metrics_and_nothing_else(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    async with serving(scheduler, metrics_open=True) as api:
        await keyed(api, "viewer")
        api.headers = {}
        assert (await api.get("/metrics")).status == 200
        assert (await api.post("/metrics")).status == 401
        assert (await api.get("/api/queues")).status == 401


async def test_without_its_extra_the_page_says_what_to_install(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "mainspring.observability.metrics.collector", raising=False)
    async with serving(make_scheduler()) as api:
        reply = await api.get("/metrics")
        assert (reply.status, 'pip install "mainspring[metrics]"' in reply.body["detail"]) == (501, True)


async def test_the_workers_wanted_follow_from_the_backlog_and_the_measured_run_time(
    api: Api, make_scheduler: Make
) -> None:
    empty = await api.get("/api/queues/mail/scale")
    assert empty.body == {
        "ready": 0,
        "capped": False,
        "oldestReadySeconds": 0.0,
        "busySlots": 0,
        "runSeconds": None,
        "slotsPerWorker": api.scheduler.settings.concurrency,
        "wanted": 0,
    }
    await api.scheduler.schedule_bulk([{"name": "x", "queue": "mail"}] * 120)
    await api.scheduler.schedule("x", queue="mail", delay=3600)
    asked = await api.get("/api/queues/mail/scale?slots=1&drain=10s")
    assert (asked.body["ready"], asked.body["wanted"]) == (120, 12)
    assert (await api.get("/api/queues/mail/scale?slots=4&drain=10s")).body["wanted"] == 3
    assert (await api.get("/api/queues/mail/scale?drain=0s")).status == 422
    await api.scheduler.queues.pause("mail")
    assert (await api.get("/api/queues/mail/scale?slots=1")).body["wanted"] == 0


async def test_a_long_backlog_is_counted_up_to_a_bound_and_its_oldest_job_has_an_age(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.store.views.queues._COUNTED_FOR_SCALE", 3)
    job, _ = [await api.scheduler.schedule("x", queue="mail") for _ in range(2)]
    earlier = {"$set": dict.fromkeys(("created_at", "run_at"), job.run_at - timedelta(hours=1))}
    await (await inside(api.scheduler).store()).connection.jobs.update_one({"_id": ObjectId(job.id)}, earlier)
    few = (await api.get("/api/queues/mail/scale")).body
    assert (few["ready"], few["capped"]) == (2, False) and few["oldestReadySeconds"] >= 3600
    await api.scheduler.schedule_bulk([{"name": "x", "queue": "mail"}] * 3)
    many = (await api.get("/api/queues/mail/scale")).body
    assert (many["ready"], many["capped"]) == (3, True)


@pytest.mark.slow
async def test_run_time_and_slots_are_those_of_the_workers(api: Api, make_scheduler: Make) -> None:
    scheduler, going = make_scheduler(queues=["mail"], concurrency=3), asyncio.Event()
    elsewhere = make_scheduler(queues=["other"], concurrency=50)

    @scheduler.job("x")
    async def x(wait: bool = False) -> None:
        if wait:
            await going.wait()

    elsewhere.job("x")(x)
    await elsewhere.start()
    await scheduler.start()
    await (await scheduler.schedule("x", queue="mail")).wait(60)
    for queue in ("mail", "other"):
        await scheduler.schedule("x", {"wait": True}, queue=queue)
    await eventually(lambda: inside(elsewhere).worker.running == 1)
    found: dict[str, Any] = {}

    async def measured() -> bool:
        found.update((await api.get("/api/queues/mail/scale")).body)
        return found["busySlots"] == 1 and found["runSeconds"] is not None

    await eventually(measured)
    assert 0 <= found["runSeconds"] < 1
    assert (found["slotsPerWorker"], found["wanted"]) == (3, 1)
    going.set()


async def test_a_queue_whose_name_ends_like_the_scale_has_a_page_by_an_encoded_slash(api: Api) -> None:
    await api.post("/api/jobs", {"name": "work", "queue": "mail/scale"})
    assert (await api.get("/api/queues/mail%2Fscale")).data["name"] == "mail/scale"
    assert (await api.get("/api/queues/mail/scale")).body["ready"] == 0
    assert (await api.get("/api/queues/mail%2Fscale/scale")).body["ready"] == 1


async def test_a_key_reaches_the_scale_of_its_own_queues_only(api: Api) -> None:
    scoped = await keyed(api, "viewer", queues=["mail"])
    assert (await scoped.get("/api/queues/mail/scale")).status == 200
    assert (await scoped.get("/api/queues/other/scale")).status == 404


async def test_the_scaled_object_names_a_path_and_a_value_of_the_real_answer(api: Api) -> None:
    scaled, authentication = yaml.safe_load_all(KEDA.read_text())
    (trigger,) = scaled["spec"]["triggers"]
    about = trigger["metadata"]
    assert (trigger["type"], about["targetValue"], about["authMode"]) == ("metrics-api", "1", "bearer")
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    path = "/" + about["url"].partition("://")[2].partition("/")[2]
    reply = await api.get(path)
    assert reply.status == 200
    assert isinstance(reply.body[about["valueLocation"]], int)
