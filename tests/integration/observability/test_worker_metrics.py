"""The metrics and probes of a worker: real jobs, a real exposition, over HTTP."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bson import ObjectId
from prometheus_client.parser import text_string_to_metric_families

from harness.inside import inside
from harness.waiting import eventually
from mainspring import ConfigurationError, Retry, Scheduler
from mainspring.engine.heartbeat import Heartbeat
from mainspring.observability.metrics import catalogue, probes
from mainspring.observability.metrics.collector import Metrics
from mainspring.observability.metrics.server import AT_ONCE, MetricsServer, read_address, serve_metrics
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def get(server: MetricsServer, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(fetch, server.url + path)


@asynccontextmanager
async def served(scheduler: Scheduler) -> AsyncIterator[MetricsServer]:
    server = serve_metrics(scheduler, "127.0.0.1:0")
    try:
        yield server
    finally:
        await asyncio.to_thread(server.close)


async def exposition(metrics: Metrics) -> Samples:
    return parsed((await metrics.render())[0].decode())


async def test_a_worker_counts_its_jobs_attempts_and_times_and_shows_them_over_http(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=4, retry=Retry(2, delay=0))

    @scheduler.job("good", queue="mail")
    async def good() -> None: ...

    @scheduler.job("bad", queue="mail")
    async def bad() -> None:
        raise ValueError("no")

    async with served(scheduler) as server:
        await scheduler.start()
        jobs = [await scheduler.schedule("good"), await scheduler.schedule("bad")]
        jobs += await scheduler.schedule_bulk([{"name": "good"}] * 3)
        for job in jobs:
            await job.wait(60)
        # A job that waits is told of its end before the worker has counted it.
        await eventually(lambda: sum(one.finished.total() for one in server.metrics.tallies.kinds.values()) == 5)
        status, text = await get(server, "/metrics")
    assert status == 200
    found = parsed(text)

    def value(series: str, **labels: str) -> float:
        return found[series, frozenset(labels.items())]

    assert value("mainspring_jobs_scheduled_total", queue="mail", name="good") == 4
    assert value("mainspring_jobs_finished_total", queue="mail", name="good", outcome="completed") == 4
    assert value("mainspring_jobs_finished_total", queue="mail", name="bad", outcome="failed") == 1
    assert value("mainspring_attempts_total", queue="mail", name="bad", outcome="retried") == 1
    assert value("mainspring_job_run_seconds_count", queue="mail", name="bad") == 2
    assert value("mainspring_job_run_seconds_bucket", queue="mail", name="good", le="+Inf") == 4
    assert value("mainspring_job_wait_seconds_count", queue="mail") == 6
    assert value("mainspring_worker_slots", state="idle") == 4
    assert value("mainspring_claims_lost_total", queue="mail") == 0


async def test_the_worker_with_the_lock_of_the_chores_shows_the_queues_and_no_other_does(make_scheduler: Make) -> None:
    first, second = make_scheduler(), make_scheduler()
    both = [Metrics(first), Metrics(second)]
    for scheduler in (first, second):
        scheduler.job("x")(lambda: None)
        await scheduler.start()
    await first.schedule("later", queue="mail", delay=3600)
    workers = [inside(scheduler).worker for scheduler in (first, second)]
    await eventually(lambda: any(worker.vitals.leads for worker in workers))
    shown = [("mainspring_queue_scheduled_jobs", frozenset({("queue", "mail")})) in await exposition(m) for m in both]
    assert sorted(shown) == [False, True]


async def test_every_metric_of_the_catalogue_and_no_other_is_shown(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    scheduler.job("x")(lambda: None)
    metrics = Metrics(scheduler, shared=True)
    await scheduler.start()
    text = (await metrics.render())[0].decode()
    families = {family.name: (family.type, family.documentation) for family in text_string_to_metric_families(text)}
    assert families == {metric.name: (metric.kind, metric.help) for metric in catalogue.ALL}


async def test_a_scheduler_without_metrics_has_no_observers_and_stores_no_trace(scheduler: Scheduler) -> None:
    assert not inside(scheduler).core.observers
    job = await scheduler.schedule("x")
    document = await (await inside(scheduler).store()).connection.jobs.find_one({"_id": ObjectId(job.id)})
    assert document is not None and "trace" not in document


async def test_a_worker_is_ready_once_it_claims_and_no_more_when_it_drains(make_scheduler: Make) -> None:
    scheduler, going = make_scheduler(), asyncio.Event()

    @scheduler.job("slow")
    async def slow() -> None:
        await going.wait()

    async with served(scheduler) as server:
        assert (await get(server, "/livez"))[0] == 200
        assert (await get(server, "/readyz"))[0] == 503
        await scheduler.start()
        assert (await get(server, "/readyz"))[0] == 200
        job = await scheduler.schedule("slow")
        await eventually(lambda: inside(scheduler).worker.running == 1)
        inside(scheduler).worker.draining.look(True)
        status, text = await get(server, "/readyz")
        assert (status, "drains" in text) == (503, True)
        assert (await get(server, "/livez"))[0] == 200
        going.set()
        await job.wait(60)
        assert (await get(server, "/elsewhere"))[0] == 404


async def test_a_worker_that_lost_the_database_is_alive_but_not_ready(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    scheduler.job("x")(lambda: None)
    async with served(scheduler) as server:
        await scheduler.start()
        worker = inside(scheduler).worker
        # The heartbeat writes this field anew with each confirmed beat: here none is confirmed any more.
        monkeypatch.setattr(type(worker.heartbeat), "beat_age", scheduler.settings.lease + 1)
        status, text = await get(server, "/readyz")
        assert (status, "heartbeat" in text) == (503, True)
        assert (await get(server, "/livez"))[0] == 200


async def test_a_worker_whose_event_loop_is_stuck_says_so_and_still_shows_its_counts(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "STUCK", 0.2)
    monkeypatch.setattr("mainspring.observability.metrics.server.SLOWEST", 0.1)
    scheduler = make_scheduler(lease=0.6)
    answers: list[tuple[int, str]] = []
    async with served(scheduler) as server:

        def ask() -> None:
            until = time.monotonic() + 60
            while time.monotonic() < until and not [one for one in answers if one[0] == 503]:
                answers.append(fetch(server.url + "/livez"))
                time.sleep(0.05)
            answers.append(fetch(server.url + "/metrics"))

        asking = threading.Thread(target=ask)
        began = time.monotonic()
        asking.start()
        asking.join()  # the event loop waits here, and runs nothing
        assert answers[0][0] == 200
        assert time.monotonic() - began > 0.6, "a whole lease, since that is longer"
        assert (answers[-2][0], "event loop" in answers[-2][1]) == (503, True)
        assert "mainspring_build_info" in answers[-1][1]
        await asyncio.sleep(0)
        assert (await get(server, "/livez"))[0] == 200


async def test_a_worker_whose_handler_blocks_its_event_loop_is_not_ready(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Heartbeat, "beat_age", 0.0)  # with a lease this short, beats are rarer than leases
    scheduler = make_scheduler(lease=0.6)
    answers: list[tuple[int, str]] = []

    @scheduler.job("block")
    async def block() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and not [one for one in answers if one[0] == 503]:
            asking = threading.Thread(target=lambda: answers.append(fetch(server.url + "/readyz")))
            asking.start()
            asking.join()
            time.sleep(0.05)

    async with served(scheduler) as server:
        await scheduler.start()
        await scheduler.schedule("block")
        await eventually(lambda: answers and answers[-1][0] == 503)
        assert "event loop does not run" in answers[-1][1], answers[-1]


async def test_a_server_of_metrics_answers_a_bounded_number_of_requests_at_once(make_scheduler: Make) -> None:
    async with served(make_scheduler()) as server:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(AT_ONCE)]
        await eventually(lambda: threading.active_count() > AT_ONCE)
        reading, writing = await asyncio.open_connection(host, int(port))
        assert await asyncio.wait_for(reading.read(), 5) == b"", "it is closed without an answer"
        for _, one in [*opened, (reading, writing)]:
            one.close()
        await eventually(lambda: fetched(server))


async def fetched(server: MetricsServer) -> bool:
    """Whether the server answers again."""
    try:
        return (await get(server, "/livez"))[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("text", ["9100", ":9100", "host:", "host:x", "host:70000", "host:٣"])
def test_an_address_without_a_host_or_a_port_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        read_address(text)


def test_an_address_may_be_of_ipv6() -> None:
    assert (read_address("[::1]:9100"), read_address("0.0.0.0:1")) == (("::1", 9100), ("0.0.0.0", 1))


async def test_a_taken_port_is_refused_with_the_option_that_changes_it(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    async with served(scheduler) as server:
        with pytest.raises(ConfigurationError, match="--metrics"):
            serve_metrics(scheduler, server.url.removeprefix("http://"))


@pytest.mark.parametrize("take", [Metrics, lambda scheduler: serve_metrics(scheduler, "127.0.0.1:0")])
async def test_a_blocking_scheduler_is_refused(take: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"mainspring\.Scheduler, which is async, not a mainspring\.sync\.Sch"):
        take(BlockingScheduler("mongodb://127.0.0.1:1/x"))
