"""`mainspring worker`: real processes, really killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import urllib.request
from collections.abc import Awaitable, Callable

import psutil  # type: ignore[import-untyped]
import pytest

from harness.commands import Command, alive
from harness.waiting import eventually
from mainspring import Job, Scheduler

Start = Callable[..., Awaitable[Command]]


async def running(client: Scheduler, job: Job, token: int = 1) -> Job:
    """The job, once its claim of this number runs."""

    async def runs() -> Job | None:
        now = await client.get_job(job.id)
        return now if now.state == "running" and now.token == token else None

    found: Job = await eventually(runs)
    return found


async def pid_of(client: Scheduler, job: Job) -> int:
    """The process that holds a job."""
    worker = await client.client.get_default_database()["jobs.workers"].find_one({"_id": job.worker})
    pid: int = worker["pid"]
    return pid


async def test_two_processes_share_the_jobs_of_the_queues_they_are_given(
    start_worker: Start, client: Scheduler
) -> None:
    worker = await start_worker("--concurrency", "1", "--queues", "mail, reports", processes=2)
    elsewhere = await client.schedule("work", queue="other")
    items = [{"name": "work", "data": {"seconds": 0.2}, "queue": queue} for queue in ("mail", "reports") * 4]
    jobs = [await client.wait(job.id, timeout=60) for job in await client.schedule_bulk(items)]
    assert {job.state for job in jobs} == {"completed"}
    assert {job.result for job in jobs} == {child.pid for child in worker.children()}
    assert {int(one.id.split(":")[1]) for one in await client.workers.all()} == {job.result for job in jobs}
    assert (await client.get_job(elsewhere.id)).state == "pending"
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert "Traceback" not in worker.output


async def test_a_worker_killed_with_9_is_replaced_and_its_job_runs_again_at_once(
    start_worker: Start, client: Scheduler
) -> None:
    worker = await start_worker(processes=2)
    before = {child.pid for child in worker.children()}
    job = await running(client, await client.schedule("work", {"seconds": 1}))
    os.kill(await pid_of(client, job), signal.SIGKILL)
    done = await client.wait(job.id, timeout=30)  # half of the lease
    assert done.state == "completed"
    assert [attempt.outcome for attempt in done.attempts] == ["lost", "completed"]
    after = await eventually(lambda: worker.output.count(" is up ") == 3 and {c.pid for c in worker.children()})
    assert len(after) == 2 and len(after & before) == 1


async def test_a_poison_job_is_found_and_its_neighbours_complete(start_worker: Start, client: Scheduler) -> None:
    neighbours = [await client.schedule("work", {"seconds": 1}) for _ in range(3)]
    poison = await client.schedule("poison")
    worker = await start_worker("--concurrency", "4")
    done = await client.wait(poison.id, timeout=60)
    assert done.state == "failed"
    assert [attempt.outcome for attempt in done.attempts] == ["lost", "retried", "failed"]
    assert done.error is not None and "SIGKILL" in done.error.message
    for neighbour in neighbours:
        ended = await client.wait(neighbour.id, timeout=60)
        assert (ended.state, [attempt.outcome for attempt in ended.attempts]) == ("completed", ["lost", "completed"])
    killed = [line for line in worker.output.splitlines() if "was killed by SIGKILL" in line]
    (once,) = [line for line in killed if "The handler's process" not in line]  # a worker died of it once, never again
    assert "Worker 1 (pid" in once


def to_the_supervisor(worker: Command) -> None:
    worker.signal(signal.SIGTERM)


def to_the_group(worker: Command) -> None:
    worker.signal_group(signal.SIGINT)


def to_everybody(worker: Command) -> None:
    for process in worker.children():
        process.send_signal(signal.SIGTERM)
    worker.signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("send", "target"),
    [
        (to_the_supervisor, "steady:scheduler"),
        (to_the_supervisor, "steady:blocking"),
        (to_the_group, "steady:scheduler"),
        (to_everybody, "steady:scheduler"),
    ],
)
async def test_a_signal_lets_running_jobs_finish_and_leaves_the_others_as_they_are(
    start_worker: Start, client: Scheduler, send: Callable[[Command], None], target: str
) -> None:
    worker = await start_worker("--concurrency", "1", target=target)
    first = await running(client, await client.schedule("work", {"seconds": 3}))
    await eventually(lambda: "work begins" in worker.output)  # not only claimed
    others = [await client.schedule("work") for _ in range(3)]
    send(worker)
    assert worker.wait() == 0, worker.output
    done = await client.get_job(first.id)
    assert (done.state, len(done.attempts)) == ("completed", 1)
    assert [(job.state, job.tries) for job in [await client.get_job(job.id) for job in others]] == [("pending", 0)] * 3


@pytest.mark.parametrize("target", ["steady:scheduler", "steady:blocking"])
async def test_a_second_signal_gives_running_jobs_back_at_once(
    start_worker: Start, client: Scheduler, target: str
) -> None:
    worker = await start_worker("--grace", "100", target=target)
    job = await running(client, await client.schedule("work", {"seconds": 100}))
    worker.signal(signal.SIGTERM)
    await eventually(lambda: "have 100 s to finish" in worker.output)
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0, worker.output
    given_back = await client.get_job(job.id)
    assert (given_back.state, given_back.tries) == ("pending", 0)


async def test_workers_drain_and_end_when_their_supervisor_is_killed_with_9(
    start_worker: Start, client: Scheduler
) -> None:
    worker = await start_worker(processes=2)
    children = worker.children()
    job = await running(client, await client.schedule("work", {"seconds": 1}))
    worker.signal(signal.SIGKILL)
    assert (await client.wait(job.id, timeout=60)).state == "completed"
    await eventually(lambda: not any(map(alive, children)))


async def test_a_handler_of_the_blocking_face_schedules_through_its_own_scheduler(
    start_worker: Start, client: Scheduler
) -> None:
    await start_worker(target="steady:blocking")
    parent = await client.wait((await client.schedule("parent")).id, timeout=60)
    child = await client.wait(parent.result, timeout=60)
    assert (parent.state, child.state) == ("completed", "completed")


async def test_what_a_killed_worker_has_started_dies_with_it(start_worker: Start, client: Scheduler) -> None:
    worker = await start_worker("--concurrency", "1")
    (child,) = worker.children()
    job = await running(client, await client.schedule("work", {"seconds": 1}))
    child.kill()
    suspect = await running(client, job, token=2)
    replacement = psutil.Process(await pid_of(client, suspect))
    helpers = await eventually(replacement.children)  # the suspect runs in a process of its own
    replacement.kill()
    await eventually(lambda: not any(map(alive, helpers)))
    done = await client.wait(suspect.id, timeout=60)
    assert [attempt.outcome for attempt in done.attempts] == ["lost", "lost", "completed"]


async def test_a_worker_without_a_module_runs_webhooks_and_email_with_the_settings_of_the_environment(
    start: Callable[..., Command], uri: str, client: Scheduler
) -> None:
    given = {"MAX_CONCURRENT_JOBS": "7", "SCHEDULER_POLL_INTERVAL": "500", "MAINSPRING_SMTP_URL": "smtp://127.0.0.1:1"}
    worker = start("worker", "--uri", uri, "--processes", "2", MONGODB_URI="mongodb://127.0.0.1:1/elsewhere", **given)
    await eventually(lambda: worker.output.count(" is up (pid ") >= 2 or worker.process.poll())
    found = await client.workers.all()
    assert [sorted(one.handlers or ()) for one in found] == [["mainspring:email", "mainspring:http"]] * 2
    assert [one.concurrency for one in found] == [7, 7]
    assert "2 worker processes for webhooks and email on mongodb://" in worker.output
    assert not any(uri in argument for child in worker.children() for argument in child.cmdline())
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert "Traceback" not in worker.output


async def test_a_drained_worker_process_finishes_ends_and_is_not_replaced(
    start_worker: Start, client: Scheduler
) -> None:
    worker = await start_worker("--concurrency", "1", processes=2)
    first = await running(client, await client.schedule("work", {"seconds": 3}))
    assert first.worker is not None
    pid = await pid_of(client, first)
    await client.workers.drain(first.worker, reason="test")
    done = await client.wait(first.id, timeout=60)
    assert (done.state, [attempt.outcome for attempt in done.attempts]) == ("completed", ["completed"])
    await eventually(lambda: pid not in {child.pid for child in worker.children()})
    await eventually(lambda: "was drained and is not replaced" in worker.output)
    (left,) = await client.workers.all()
    other = await client.wait((await client.schedule("work", {"seconds": 0})).id, timeout=60)
    assert (other.state, other.attempts[0].worker) == ("completed", left.id)
    await client.workers.drain(left.id)
    assert worker.wait() == 0  # nothing is left to supervise
    assert worker.output.count(" is up ") == 2 and "Traceback" not in worker.output


def two_free_ports() -> int:
    """A port that is free, and the next one too."""
    while True:
        with socket.socket() as one, socket.socket() as next_one, contextlib.suppress(OSError, OverflowError):
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            next_one.bind(("127.0.0.1", port + 1))
            return port


async def test_each_process_serves_its_metrics_and_probes_on_a_port_of_its_own(start_worker: Start) -> None:
    port = two_free_ports()
    await start_worker("--metrics", f"127.0.0.1:{port}", processes=2)

    def fetch(place: str) -> tuple[int, str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{place}", timeout=10) as answer:
            return answer.status, answer.read().decode()

    for one in (port, port + 1):
        assert (await asyncio.to_thread(fetch, f"{one}/livez"))[0] == 200
        assert (await asyncio.to_thread(fetch, f"{one}/readyz"))[0] == 200
        assert 'mainspring_worker_slots{state="idle"}' in (await asyncio.to_thread(fetch, f"{one}/metrics"))[1]
