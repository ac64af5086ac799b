"""A key with a scope changes no job out of it, also not through a flow whose root it reaches."""

from __future__ import annotations

from typing import Any

import pytest

from api.conftest import Api
from harness.waiting import eventually
from mainspring import Fail, JobContext

SOON = 20
REFUSED = "This flow has jobs out of this key's scope; nothing was changed. Use a key that reaches all of them."


@pytest.fixture
async def admin(api: Api) -> Api:
    return api.with_key((await api.scheduler.api_keys.create("admin", "admin")).text)


@pytest.fixture
async def tenant(api: Api, admin: Api) -> Api:
    """The service, asked with the key of a tenant that has the queue `acme`."""
    return api.with_key((await api.scheduler.api_keys.create("ops", "operator", queues=["acme"])).text)


async def blocked(api: Api, queue: str, depth: int = 1) -> tuple[str, str]:
    """The ids of a root of the queue `acme`, blocked, and of the last job below it, of this queue, which waits for its
    time. Jobs between them are in the queue `acme`."""

    @api.scheduler.job("parent", queue="acme")
    async def parent(ctx: JobContext, left: int) -> Any:
        if left > 1:
            return await ctx.call("child", "parent", {"left": left - 1})
        return await ctx.call("child", "leaf", queue=queue, delay=3600)

    api.scheduler.job("leaf")(lambda: None)
    await api.scheduler.start()
    root = await api.scheduler.schedule("parent", {"left": depth})
    leaf = root.id + ".child" * depth

    async def waits() -> bool:
        found = await api.get(f"/api/jobs/{leaf}")
        return found.status == 200 and (await api.get(f"/api/jobs/{root.id}")).data["state"] == "blocked"

    await eventually(waits, SOON)
    return root.id, leaf


async def states(api: Api, *ids: str) -> list[str]:
    return [(await api.get(f"/api/jobs/{one}")).data["state"] for one in ids]


@pytest.mark.parametrize("path", ["/api/flows/{id}/cancel", "/api/jobs/{id}/cancel"])
@pytest.mark.slow
async def test_a_flow_with_foreign_jobs_is_not_cancelled(admin: Api, tenant: Api, path: str) -> None:
    root, leaf = await blocked(admin, "globex")
    refused = await tenant.post(path.format(id=root))
    assert (refused.status, refused.body["detail"]) == (403, REFUSED)
    assert leaf not in str(refused.body)
    assert await states(admin, root, leaf) == ["blocked", "pending"]
    assert (await admin.post(path.format(id=root))).status == 200
    assert await states(admin, root, leaf) == ["cancelled", "cancelled"]


@pytest.mark.parametrize("path", ["/api/flows/{id}/cancel", "/api/jobs/{id}/cancel"])
async def test_a_flow_whose_jobs_are_all_reached_is_cancelled(admin: Api, tenant: Api, path: str) -> None:
    root, leaf = await blocked(admin, "acme")
    assert (await tenant.post(path.format(id=root))).status == 200
    assert await states(admin, root, leaf) == ["cancelled", "cancelled"]


@pytest.mark.slow
async def test_a_part_of_a_flow_with_foreign_jobs_further_below_is_not_cancelled(admin: Api, tenant: Api) -> None:
    root, leaf = await blocked(admin, "globex", 3)
    refused = await tenant.post(f"/api/jobs/{root}.child/cancel")
    assert (refused.status, refused.body["detail"]) == (403, REFUSED)
    assert await states(admin, f"{root}.child", f"{root}.child.child", leaf) == ["blocked", "blocked", "pending"]


@pytest.mark.slow
async def test_an_operation_leaves_flows_with_foreign_jobs_alone(admin: Api, tenant: Api) -> None:
    root, leaf = await blocked(admin, "globex")
    order = {"verb": "cancel", "ids": [root], "reason": "tidy", "startAfter": "0s"}
    id = (await tenant.post("/api/operations", order)).data["id"]

    async def done() -> dict[str, Any] | None:
        found: dict[str, Any] = (await tenant.get(f"/api/operations/{id}")).data
        return found["progress"] if found["state"] == "completed" else None

    progress = await eventually(done, SOON)
    assert (progress["changed"], progress["refused"]) == (0, 1)
    assert "out of the scope of the key" in progress["reasons"][0]["reason"]
    assert await states(admin, root, leaf) == ["blocked", "pending"]


async def test_a_flow_with_foreign_failures_is_not_retried(admin: Api, tenant: Api) -> None:
    ran: list[str] = []

    @admin.scheduler.job("parent", queue="acme", retry=1)
    async def parent(ctx: JobContext) -> None:
        await ctx.call("child", "leaf", queue="globex")

    @admin.scheduler.job("leaf", retry=1)
    async def leaf() -> None:
        ran.append("leaf")
        raise Fail("no luck")

    await admin.scheduler.start()
    root = await admin.scheduler.schedule("parent")
    assert (await root.wait(SOON)).state == "failed"
    refused = await tenant.post(f"/api/flows/{root.id}/retry")
    assert (refused.status, refused.body["detail"]) == (403, REFUSED)
    assert await states(admin, root.id, f"{root.id}.child") == ["failed", "failed"]
    assert ran == ["leaf"]
