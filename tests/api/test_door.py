"""Who is let in, and what everybody is told."""

from __future__ import annotations

from api.conftest import Api


async def test_the_service_says_that_it_is_alive_to_anybody(api: Api) -> None:
    reply = await api.get("/healthz", headers={"X-Forwarded-For": "203.0.113.9"})
    assert (reply.status, reply.body) == (200, {"status": "alive"})


async def test_whoever_is_on_this_machine_is_let_in_while_there_is_no_key(api: Api) -> None:
    assert (await api.get("/openapi.json")).status == 200
    await api.scheduler.create_api_key("ops", "admin")
    assert (await api.get("/openapi.json")).status == 401
