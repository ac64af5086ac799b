"""What one tenant can do to another without touching its things: by ids, keys, limits, breakers and explanations."""

from __future__ import annotations

from typing import Any

from attack.books import Row, probe
from attack.stage import FOREIGN, FOREIGN_QUEUE, Stage
from attack.targets import OTHER
from attack.tenants import foreign_in, settle
from harness.waiting import eventually


@probe("tenancy", "An id that another tenant has used before shows nothing of that time", fast=True)
async def used_ids(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    name = f"qa:nightly-{stage.dice.randrange(10**9)}"
    own: dict[str, Any] = {"queue": FOREIGN_QUEUE, "data": {"x": f"{FOREIGN}-boomdata"}}
    await stage.made("admin", name="boom", schedule="0 0 1 1 *", id=name, **own)
    fired = await stage.client.post(f"/api/schedules/{name}/trigger", "foreign")
    row.control(fired.ok, fired)
    await stage.end(fired.data["id"] if "id" in fired.data else fired.data["jobId"])
    seen = await stage.client.get(f"/api/jobs/{name}/executions", "foreign")
    row.control(FOREIGN in seen.text, seen)
    await stage.client.ask("DELETE", f"/api/schedules/{name}", "foreign")
    taken = await stage.create("tenant", name="plain", queue="qa", schedule="0 0 1 1 *", id=name)
    row.check(taken.status < 500, taken)
    for path in (
        *(f"/api/jobs/{name}/executions", f"/api/jobs/{name}", f"/api/schedules/{name}"),
        *(f"/api/schedules/{name}/ledger", f"/api/jobs/search?scheduleId={name}", f"/api/schedules/{name}/upcoming"),
        f"/api/jobs/search?scheduleId={name}&state=failed",
    ):
        answer = await stage.client.get(path, "tenant")
        told = foreign_in(answer.text, answer.request, foreign)
        row.check(not told and "boom" not in answer.text, f"{answer} told {told}")
    await stage.client.ask("DELETE", f"/api/schedules/{name}", "admin")


@probe("tenancy", "A tenant's dedupe keys hold back no job of another tenant", fast=True)
async def dedupe_keys(stage: Stage, row: Row) -> None:
    key = f"invoice-{stage.dice.randrange(10**9)}"
    first = await stage.create("tenant", name="plain", queue="qa", dedupeKey=key, delay="36d", dedupeWindow="36d")
    row.control(first.ok, first)
    again = await stage.create("tenant", name="plain", queue="qa", dedupeKey=key, delay="1h")
    row.control(again.ok and again.data["jobId"] == first.data["jobId"], f"the same tenant's key counts: {again}")
    for by, queue, name in (
        ("foreign", FOREIGN_QUEUE, "plain"),
        ("prefix", "anywhere", "p.plain"),
        ("operator", "billing", "plain"),
        ("foreign", FOREIGN_QUEUE, "boom"),
    ):
        answer = await stage.create(by, name=name, queue=queue, dedupeKey=f"{key}", delay="1h")
        own = answer.ok and answer.data["jobId"] != first.data["jobId"]
        row.check(own or (name == "boom" and answer.status == 409), answer)
        row.check(first.data["jobId"] not in answer.text, f"{answer}: tells of another tenant's job")


@probe("tenancy", "A tenant's failing target opens no breaker of another tenant, nor takes its slots")
async def breakers(stage: Stage, row: Row) -> None:
    url = stage.targets.url("/status/500", OTHER)
    ok = stage.targets.url("/ok", OTHER)
    ids = [await stage.made("tenant", queue="qa", endpoint=url) for _ in range(40)]
    await eventually(lambda: _opened(stage, ids[-1]), 60)
    for by, queue in (("foreign", FOREIGN_QUEUE), ("operator", "billing")):
        job = await stage.made(by, queue=queue, endpoint=ok)
        row.check(await _runs(stage, job), f"a job of {by} to {ok} waits behind another tenant's breaker")
    for job in ids:
        await stage.client.post(f"/api/jobs/{job}/cancel", "admin", {})
    await _slots(stage, row)


async def _slots(stage: Stage, row: Row) -> None:
    """The same for the slots of a target: a service that calls each target once at a time, and a target that is silent
    to one tenant."""
    service = await stage.serve("up", "target:scheduler", "--uri", stage.spare(), MAINSPRING_TARGET_CONCURRENCY="1")
    silent, ok = (stage.targets.url(path, OTHER) for path in ("/silent/slots", "/ok"))

    async def call(queue: str, url: str) -> str:
        made = await service.client.post("/api/jobs", None, {"queue": queue, "endpoint": url, "timeout": "60s"})
        row.control(made.ok, made)
        return str(made.data["jobId"])

    await call("qa", silent)
    await eventually(lambda: stage.targets.at("/silent/slots"))
    own, other = await call("qa", ok), await call("billing", ok)
    ended = await service.client.get(f"/api/jobs/{other}/wait?timeout=15s")
    row.check(ended.ok and ended.data["state"] == "completed", f"another tenant's call waits for a slot: {ended}")
    waiting = await service.client.get(f"/api/jobs/{own}")
    row.control(waiting.data["state"] == "pending", f"a call of the same tenant waits for its slot: {waiting}")
    service.command.stop()


async def _opened(stage: Stage, job: str) -> bool:
    """Whether the tenant's own breaker has opened: its last job waits behind it."""
    return "breaker" in (await stage.client.get(f"/api/jobs/{job}/explain", "tenant")).text


async def _runs(stage: Stage, job: str) -> bool:
    try:
        return (await stage.end(job, 15)).state == "completed"
    except TimeoutError:
        await stage.client.post(f"/api/jobs/{job}/cancel", "admin", {})
        return False


@probe("tenancy", "A tenant changes no job of another tenant through a flow that has jobs of both", fast=True)
async def shared_flows(stage: Stage, row: Row) -> None:
    own = await _delegated(stage, abroad=False)
    allowed = await stage.client.post(f"/api/flows/{own}/cancel", "tenant", {})
    row.control(allowed.ok and await _state(stage, f"{own}.part", "cancelled"), allowed)
    root = await _delegated(stage, abroad=True)
    order = {"verb": "cancel", "ids": [root], "reason": "tidy", "startAfter": "0s"}
    for path, body in (
        (f"/api/flows/{root}/retry", None),
        (f"/api/flows/{root}/cancel", {}),
        (f"/api/jobs/{root}/cancel", {}),
        ("/api/operations", order),
    ):
        answer = await stage.client.post(path, "tenant", body)
        if answer.ok and body is order:
            await eventually(lambda id=answer.data["id"]: _carried_out(stage, id))  # type: ignore[misc]
        row.check(f"{root}.part" not in answer.text, f"{answer}: names another tenant's job")
        row.check(await _state(stage, f"{root}.part", "pending"), f"{answer}: changed another tenant's job")
    await stage.client.post(f"/api/jobs/{root}/cancel", "admin", {})


async def _delegated(stage: Stage, *, abroad: bool) -> str:
    """A job of the tenant that waits for a job of its own queue, or of another tenant's."""
    job = await stage.made("admin", name="delegate", queue="qa", data={"abroad": abroad})
    await eventually(lambda: _state(stage, job, "blocked"))
    return job


async def _carried_out(stage: Stage, operation: str) -> bool:
    return bool((await stage.client.get(f"/api/operations/{operation}", "tenant")).data["state"] == "completed")


@probe("tenancy", "An explanation tells a tenant nothing of other tenants, workers or admins", fast=True)
async def explanations(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    running = await stage.made("foreign", name="slow", queue=FOREIGN_QUEUE, data={"seconds": 60})
    await eventually(lambda: _state(stage, running, "running"))
    waiting = await stage.made("tenant", name="slow", queue="qa")
    pause = {"queue": "qa", "key": {"x": "y"}, "reason": f"{FOREIGN}-reason of an admin"}
    await stage.client.post("/api/pauses", "admin", pause)
    paused = await stage.made("tenant", name="plain", queue="qa", data={"x": "y"})
    workers = (await stage.client.get("/api/workers", "admin")).data
    row.control(workers, "there is a worker")
    secrets = [running, stage.key_id("admin"), *(str(one["id"]) for one in workers)]
    try:
        await eventually(lambda: _explained(stage, waiting, running))
        for job in (waiting, paused):
            for path in (f"/api/jobs/{job}/explain", f"/api/jobs/{job}", f"/api/jobs/{job}/detail"):
                answer = await stage.client.get(path, "tenant")
                told = foreign_in(answer.text, answer.request, foreign)
                told += [one for one in secrets if one in answer.text]
                row.check(answer.ok and not told, f"{answer.request} told {told}: {answer.text[:600]}")
        for path in ("/api/pauses", "/api/limits", "/api/breakers", "/api/queues"):
            answer = await stage.client.get(path, "tenant")
            told = [one for one in (*secrets, FOREIGN) if one in answer.text]
            row.check(answer.ok and not told, f"{answer.request} told {told}: {answer.text[:600]}")
    finally:
        await stage.client.post("/api/pauses/resume", "admin", {"queue": "qa", "key": {"x": "y"}})
        for job in (running, waiting, paused):
            await stage.client.post(f"/api/jobs/{job}/cancel", "admin", {})


async def _state(stage: Stage, job: str, state: str) -> bool:
    answer = await stage.client.get(f"/api/jobs/{job}", "admin")
    return bool(answer.ok and answer.data["state"] == state)


async def _explained(stage: Stage, waiting: str, running: str) -> bool:
    """Whether the explanation for an admin names the job that has the slot."""
    return running in (await stage.client.get(f"/api/jobs/{waiting}/explain", "admin")).text
