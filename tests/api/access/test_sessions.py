"""Sessions: a cookie instead of a key, of no use to other sites, to scripts, and after its key has ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any

import pytest

from api.conftest import Api, Reply, serving
from mainspring import NewApiKey, Scheduler, Unavailable
from mainspring.client.service_backend import ServiceBackend
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]


@pytest.fixture
async def key(api: Api) -> NewApiKey:
    return await api.scheduler.api_keys.create("ops", "admin")


def cookie(reply: Reply) -> tuple[str, Any]:
    """The name and the rest of the cookie that an answer sets."""
    ((name, morsel),) = SimpleCookie(reply.headers["set-cookie"]).items()
    return name, morsel


async def log_in(api: Api, text: str) -> tuple[Api, str]:
    """The service, asked with a new session, and the session's token."""
    reply = await api.with_key(text).post("/api/session")
    name, morsel = cookie(reply)
    browser = Api(api.url, api.session, api.scheduler)
    browser.headers = {"Cookie": f"{name}={morsel.value}"}
    return browser, reply.data["csrfToken"]


async def test_a_key_is_exchanged_for_a_cookie_that_pages_cannot_read(api: Api, key: NewApiKey) -> None:
    reply = await api.with_key(key.text).post("/api/session")
    name, morsel = cookie(reply)
    assert (reply.status, name) == (201, "mainspring_session")
    assert (morsel["httponly"], morsel["samesite"], morsel["path"], morsel["secure"]) == (True, "strict", "/", "")
    assert (morsel["max-age"], morsel["domain"]) == (str(12 * 3600), "")
    assert key.text.split("_")[2] not in reply.headers["set-cookie"]
    assert (reply.data["way"], reply.data["role"], reply.data["name"]) == ("session", "admin", "ops")
    assert len(reply.data["csrfToken"]) == 64 and reply.data["csrfToken"] not in morsel.value


async def test_elsewhere_than_on_this_machine_the_cookie_needs_tls(api: Api, key: NewApiKey) -> None:
    reply = await api.with_key(key.text).post("/api/session", headers={"Host": "jobs.example.com"})
    name, morsel = cookie(reply)
    assert (name, morsel["secure"], morsel["path"], morsel["domain"]) == ("__Host-mainspring_session", True, "/", "")
    asked = {"Host": "jobs.example.com", "Cookie": f"{name}={morsel.value}"}
    assert (await api.get("/api/session", headers=asked)).status == 200
    planted = asked | {"Cookie": f"mainspring_session={morsel.value}"}
    assert (await api.get("/api/session", headers=planted)).status == 401


async def test_everybody_can_ask_who_he_is(api: Api) -> None:
    local = (await api.get("/api/session")).data
    assert (local["way"], local["actor"], local["role"]) == ("local", "local", "admin")
    key = await api.scheduler.api_keys.create("tenant", "viewer", queues=["acme"])
    by_key = (await api.with_key(key.text).get("/api/session")).data
    assert (by_key["way"], by_key["role"], by_key["scope"]["queues"]) == ("key", "viewer", ["acme"])
    browser, token = await log_in(api, key.text)
    by_session = (await browser.get("/api/session")).data
    assert (by_session["way"], by_session["actor"], by_session["csrfToken"]) == ("session", by_key["actor"], token)
    assert (by_session["role"], by_session["scope"]) == (by_key["role"], by_key["scope"])


async def test_a_change_by_a_session_needs_its_token(api: Api, key: NewApiKey) -> None:
    browser, token = await log_in(api, key.text)
    _, other_token = await log_in(api, key.text)
    for wrong in ({}, {"X-Csrf-Token": ""}, {"X-Csrf-Token": "é"}, {"X-Csrf-Token": other_token}):
        refused = await browser.post("/api/keys", {"name": "x"}, headers=wrong)
        assert (refused.status, "X-Csrf-Token" in refused.text) == (403, True)
    assert len(await api.scheduler.api_keys.all()) == 1
    assert (await browser.post("/api/keys", {"name": "x"}, headers={"X-Csrf-Token": token})).status == 201


@pytest.mark.parametrize("foreign", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}], ids=str)
async def test_another_site_can_neither_use_nor_open_a_session(
    api: Api, key: NewApiKey, foreign: dict[str, str]
) -> None:
    browser, token = await log_in(api, key.text)
    assert (await browser.get("/api/session", headers=foreign)).status == 403
    assert (await browser.post("/api/keys", {"name": "x"}, headers=foreign | {"X-Csrf-Token": token})).status == 403
    assert (await api.with_key(key.text).post("/api/session", headers=foreign)).status == 403


async def test_a_session_is_opened_with_a_key_only(api: Api) -> None:
    assert (await api.post("/api/session")).status == 401
    key = await api.scheduler.api_keys.create("ops", "admin")
    browser, token = await log_in(api, key.text)
    assert (await browser.post("/api/session", headers={"X-Csrf-Token": token})).status == 401


@pytest.mark.parametrize("change", ["revoke", "rotate"])
async def test_a_session_ends_with_its_key(api: Api, key: NewApiKey, change: str) -> None:
    browser, _ = await log_in(api, key.text)
    await getattr(api.scheduler.api_keys, change)(key.key.id)
    reply = await browser.get("/api/session")
    assert (reply.status, "log in again" in reply.text) == (401, True)


async def test_a_session_ends_in_time_or_with_its_key_if_that_is_earlier(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    async with serving(scheduler, session_hours=1) as api:
        key = await scheduler.api_keys.create("ops", "admin", expires_at=clock.now() + timedelta(minutes=90))
        first, _ = await log_in(api, key.text)
        assert (await first.get("/api/session")).status == 200
        clock.advance(timedelta(hours=1))
        assert (await first.get("/api/session")).status == 401
        second, _ = await log_in(api, key.text)
        end = (await second.get("/api/session")).data["expiresAt"]
        assert end == (clock.now() + timedelta(minutes=30)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def test_the_old_secret_of_a_rotated_key_opens_no_session_that_would_outlast_it(api: Api, key: NewApiKey) -> None:
    new = await api.scheduler.api_keys.rotate(key.key.id, timedelta(hours=1))
    assert (await api.with_key(key.text).get("/api/session")).status == 200
    assert (await api.with_key(key.text).post("/api/session")).status == 403
    assert (await api.with_key(new.text).post("/api/session")).status == 201


@pytest.mark.parametrize("how", ["session", "key"])
async def test_a_session_that_was_logged_out_is_over_in_every_process(make_scheduler: Make, how: str) -> None:
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("ops", "admin")
    secret = {"session_secret": "s" * 32}
    async with serving(scheduler, **secret) as api, serving(make_scheduler(), **secret) as other:
        browser, token = await log_in(api, key.text)
        still, _ = await log_in(api, key.text)
        shown = {"X-Csrf-Token": token} if how == "session" else {"Authorization": f"Bearer {key.text}"}
        assert (await browser.delete("/api/session", headers=shown)).status == 204
        for service in (api, other):
            reply = await service.get("/api/session", headers=browser.headers)
            assert (reply.status, "log in again" in reply.text) == (401, True)
            assert (await service.get("/api/session", headers=still.headers)).status == 200
    async with serving(make_scheduler(), **secret) as later:
        assert (await later.get("/api/session", headers=browser.headers)).status == 401
    closed = scheduler.client.get_default_database()["jobs.sessions"]
    (stored,) = await closed.find({}).hint("_id_").to_list(None)
    assert set(stored) == {"_id", "until"} and stored["_id"] not in browser.headers["Cookie"]


async def test_a_session_that_cannot_be_closed_is_not_said_to_be(
    api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, token = await log_in(api, key.text)

    async def away(*args: Any) -> None:
        raise Unavailable("away")

    monkeypatch.setattr(ServiceBackend, "close_session", away)
    reply = await browser.delete("/api/session", headers={"X-Csrf-Token": token})
    assert (reply.status, "set-cookie" in reply.headers) == (503, False)


async def test_logging_out_lets_the_browser_forget(api: Api, key: NewApiKey) -> None:
    browser, token = await log_in(api, key.text)
    assert (await browser.delete("/api/session")).status == 403
    reply = await browser.delete("/api/session", headers={"X-Csrf-Token": token})
    name, morsel = cookie(reply)
    assert (reply.status, name, morsel.value, morsel["max-age"]) == (204, "mainspring_session", "", "0")
    assert [row.action for row in await api.scheduler.audit.find()] == ["session.close", "session.open"]


@pytest.mark.parametrize("secret", [None, "s" * 32])
async def test_a_session_outlives_the_process_where_the_secret_is_set(make_scheduler: Make, secret: str | None) -> None:
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("ops", "admin")
    async with serving(scheduler, session_secret=secret) as api:
        browser, _ = await log_in(api, key.text)
    async with serving(make_scheduler(), session_secret=secret) as api:
        reply = await api.get("/api/session", headers=browser.headers)
        assert reply.status == (401 if secret is None else 200)


async def test_an_old_cookie_does_not_lock_out_whoever_needs_no_key(api: Api) -> None:
    reply = await api.get("/api/session", headers={"Cookie": "mainspring_session=s1.gone"})
    assert reply.data["way"] == "local"
