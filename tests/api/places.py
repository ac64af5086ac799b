"""Things for the parameters of the API's paths to lead to, made anew for each request."""

from __future__ import annotations

import re

from mainspring import Calendar, Cron, Scheduler


async def make_places(scheduler: Scheduler, path: str) -> dict[str, str]:
    """What the parameters of a path may be, so that it is there."""
    return {name: await _make(scheduler, path, name) for name in re.findall(r"\{(\w+)\}", path)}


async def _make(scheduler: Scheduler, path: str, name: str) -> str:
    match name:
        case "job_id" | "id":
            return await _job(scheduler, ended=path.endswith("/retry"))
        case "schedule_id":
            return (await scheduler.schedule("x", repeat=Cron("0 0 1 1 *"))).id
        case "key_id":
            return (await scheduler.create_api_key("x")).key.id
        case "redrive_id":
            return (await scheduler.discard_dead_letters(name="x")).id
        case "name" if path.startswith("/api/secrets"):
            return (await scheduler.put_secret("x", "whsec_something")).name
        case "name":
            await scheduler.put_calendar("x", Calendar(days=["2030-12-25"]))
            return "x"
        case "scope" | "target":
            return {"scope": "queue", "target": "default"}[name]
    raise AssertionError(f"say what {name} may be")


async def _job(scheduler: Scheduler, *, ended: bool) -> str:
    job = await scheduler.schedule("x", delay=3600)
    return (await scheduler.cancel(job.id)).id if ended else job.id
