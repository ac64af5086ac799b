"""Things for the parameters of the API's paths to lead to, made anew for each request."""

from __future__ import annotations

import re
from datetime import timedelta

from harness.inside import inside
from mainspring import Calendar, Cron, Scheduler
from mainspring.store.codec import document_id


async def make_places(scheduler: Scheduler, path: str) -> dict[str, str]:
    """What the parameters of a path may be, so that it is there."""
    return {name: await _make(scheduler, path, name) for name in re.findall(r"\{(\w+)\}", path)}


async def _make(scheduler: Scheduler, path: str, name: str) -> str:
    match name:
        case "job_id" | "id":
            if path.endswith("/stack"):
                return await _running_job(scheduler)
            return await _job(scheduler, ended=path.endswith("/retry"))
        case "flow_id":
            return await _flow(scheduler)
        case "schedule_id":
            return (await scheduler.schedule("x", repeat=Cron("0 0 1 1 *"))).id
        case "key_id":
            return (await scheduler.api_keys.create("x")).key.id
        case "redrive_id":
            return (await scheduler.dead_letters.discard(name="x")).id
        case "rule_id":
            return await _rule(scheduler)
        case "operation_id":
            return (await scheduler.operations.create("cancel", {"name": "x"}, reason="x")).id
        case "name" if path.startswith("/api/secrets"):
            return (await scheduler.secrets.put("x", "whsec_something", origins=["*"])).name
        case "name":
            await scheduler.calendars.put("x", Calendar(days=["2030-12-25"]))
            return "x"
        case "queue":
            return "default"
        case "worker_id":
            return await _worker(scheduler)
        case "scope" | "target":
            return {"scope": "queue", "target": "default"}[name]
    raise AssertionError(f"say what {name} may be")


async def _rule(scheduler: Scheduler) -> str:
    for rule in await scheduler.alerts.all():  # there are at most a hundred
        if rule.name == "x":
            await scheduler.alerts.delete(rule.id)
    mail = {"type": "email", "to": ["ops@example.com"]}
    return (await scheduler.alerts.create("x", "dead_letters", [mail])).id


async def _job(scheduler: Scheduler, *, ended: bool) -> str:
    job = await scheduler.schedule("x", delay=3600)
    return (await scheduler.cancel(job.id)).id if ended else job.id


async def _flow(scheduler: Scheduler) -> str:
    flow = scheduler.flow("x", {"x": 1})
    flow.add("x", after=flow.add("x"))
    return (await flow.start()).id


async def _running_job(scheduler: Scheduler) -> str:
    """A job that the worker of `_worker` runs, which never looks."""
    job = await scheduler.schedule("x", delay=3600)
    store, worker = await inside(scheduler).store(), await _worker(scheduler)
    running = {"state": "running", "worker": worker, "token": 1, "lease_until": store.clock.now() + timedelta(days=1)}
    await store.connection.jobs.update_one({"_id": document_id(job.id)}, {"$set": running, "$unset": {"ready": ""}})
    return job.id


async def _worker(scheduler: Scheduler) -> str:
    """A live worker that drains, so that its drain can be cancelled, too; it never looks."""
    store = await inside(scheduler).store()
    now = store.clock.now()
    worker = {"_id": "w:1", "beat_at": now, "host": "h", "pid": 1, "drain": {"at": now}}
    await store.connection.workers.replace_one({"_id": "w:1"}, worker, upsert=True)
    return "w:1"
