"""The stack of a running handler on demand: of a task, a thread and a process, fenced, bounded and without values."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from harness.apps import isolated
from harness.looking import Database
from harness.waiting import eventually
from mainspring import Job, JobStateError, Scheduler
from mainspring.engine.run.stacks import MAX_STACK, HandlerPlace, bounded


async def stack_of(scheduler: Scheduler, job_id: str) -> str:
    asked = await scheduler.workers.ask_stack(job_id)

    async def answered() -> Job | None:
        job = await scheduler.get_job(job_id)
        return job if job.stack is not None and job.stack.at is not None and job.stack.at >= asked else None

    job = await eventually(answered)
    assert job.stack is not None and not job.stack_is_stale
    text: str = job.stack.text
    return text


async def running(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None) -> str:
    job: Job = await scheduler.schedule(name, data)

    async def runs() -> bool:
        return (await scheduler.get_job(job.id)).state == "running"

    await eventually(runs)
    return job.id


@pytest.mark.parametrize("timeout", [None, 60])
async def test_an_async_handler_shows_where_it_awaits_and_no_values(scheduler: Scheduler, timeout: int | None) -> None:
    go = asyncio.Event()

    @scheduler.job("wait", timeout=timeout)
    async def wait(password: str) -> None:
        await inner_call(password)

    async def inner_call(secret: str) -> None:
        local = secret + "!"
        await asyncio.gather(go.wait(), asyncio.sleep(0))
        del local

    await scheduler.start()
    job_id = await running(scheduler, "wait", {"password": "tell-no-one"})
    text = await stack_of(scheduler, job_id)
    assert text.index("in wait") < text.index("in inner_call") and "asyncio.gather" in text
    assert "tell-no-one" not in text and "executor.py" not in text
    go.set()
    done = await scheduler.wait(job_id, 60)
    assert done.state == "completed" and done.stack is not None and done.stack_is_stale


async def test_a_thread_shows_its_own_calls(scheduler: Scheduler) -> None:
    go = threading.Event()

    @scheduler.job("block")
    def block() -> None:
        deep(3)

    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        else:
            go.wait(60)

    await scheduler.start()
    job_id = await running(scheduler, "block")
    text = await stack_of(scheduler, job_id)
    go.set()
    assert text.count("in deep") == 4 and text.index("in block") < text.index("in deep")


@pytest.mark.slow
async def test_a_process_shows_its_handlers_calls(scheduler: Scheduler, tmp_path: Path) -> None:
    for function in (isolated.hang, isolated.hang_async):
        scheduler.job(function.__name__, isolation="process")(function)
    await scheduler.start()
    for name in ("hang", "hang_async"):
        job_id = await running(scheduler, name, {"pid_file": str(tmp_path / name)})

        async def shown(job_id: str = job_id, name: str = name) -> bool:  # its process may still be starting
            return f"in {name}" in await stack_of(scheduler, job_id)

        await eventually(shown)
        await scheduler.cancel(job_id)


async def test_a_job_that_does_not_run_or_whose_worker_is_gone_is_refused(scheduler: Scheduler, db: Database) -> None:
    job = await scheduler.schedule("later", delay=600)
    with pytest.raises(JobStateError, match="pending"):
        await scheduler.workers.ask_stack(job.id)
    await db.jobs.update_one(
        {"_id": ObjectId(job.id)}, {"$set": {"state": "running", "worker": "gone", "token": 1}, "$unset": {"ready": ""}}
    )
    with pytest.raises(JobStateError, match="worker is gone"):
        await scheduler.workers.ask_stack(job.id)


async def test_a_stack_of_an_earlier_claim_is_never_stored(scheduler: Scheduler, db: Database) -> None:
    store = await scheduler._core.store()
    go = asyncio.Event()

    @scheduler.job("wait")
    async def wait() -> None:
        await go.wait()

    await scheduler.start()
    job_id = await running(scheduler, "wait")
    document = (await db.jobs.find_one({}, hint="_id_")) or {}
    renewals = await asyncio.to_thread(store.renewals)
    assert not await asyncio.to_thread(renewals.store_stack, document["_id"], document["token"] - 1, "old")
    assert (await scheduler.get_job(job_id)).stack is None
    assert await asyncio.to_thread(renewals.store_stack, document["_id"], document["token"], "$new")
    stack = (await scheduler.get_job(job_id)).stack
    assert stack is not None and stack.text == "$new"
    go.set()


@pytest.mark.slow
async def test_requests_in_any_form_harm_nothing(scheduler: Scheduler, db: Database) -> None:
    @scheduler.job("wait")
    async def wait() -> None:
        await asyncio.Event().wait()

    await scheduler.start()
    job_id = await running(scheduler, "wait")
    for hostile in ("x", [1, None, {}, {"job": {"$gt": ""}, "token": "x"}], {"job": 1}):
        worker = {"_id": scheduler.workers.own_id}
        await db["jobs.workers"].update_one(worker, {"$set": {"asks": hostile}})

        async def taken_off(worker: dict[str, Any] = worker) -> bool:
            return "asks" not in (await db["jobs.workers"].find_one(worker) or {})

        await eventually(taken_off)
    assert "in wait" in await stack_of(scheduler, job_id)


async def test_a_blocked_event_loop_is_told_with_what_it_runs() -> None:
    place = HandlerPlace(asyncio.current_task(), asyncio.get_running_loop())
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(place.stack()))
    thread.start()
    thread.join(60)  # blocks the event loop until the thread has given it up
    assert "event loop is blocked" in found[0] and "thread.join(60)" in found[0]


def test_a_long_stack_keeps_its_deepest_calls() -> None:
    text = "".join(f"  File {n}, in f\n" for n in range(10_000))
    kept = bounded(text)
    assert len(kept.encode()) <= MAX_STACK and kept.endswith("File 9999, in f\n") and kept.startswith("… (cut)\n")
