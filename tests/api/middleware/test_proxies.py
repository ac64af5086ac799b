"""What is believed of a forwarded request, from whom, and what is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http.cookies import Morsel, SimpleCookie

import pytest
from starlette.types import Message, Receive, Scope, Send

from api.conftest import Api, Make, Reply, serving
from mainspring import ConfigurationError
from mainspring.api.middleware.proxies import FORWARDED, TrustedProxies
from mainspring.api.settings import service_settings
from mainspring.model.networks import read_proxies

CLIENT = "203.0.113.9"


@pytest.fixture
async def proxied(make_scheduler: Make) -> AsyncIterator[Api]:
    """A service that trusts proxies on this machine, asked with a key."""
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("ops", "admin")
    async with serving(scheduler, trusted_proxies="127.0.0.1,10.0.0.0/8") as api:
        yield api.with_key(key.text)


async def address_of_change(api: Api, **headers: str) -> str | None:
    """The address that the audit log tells of a change."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    assert (await api.post("/api/jobs", {"name": "work"}, headers=sent)).status == 201
    return (await api.scheduler.audit.find(limit=1))[0].address


def cookie(reply: Reply) -> tuple[str, Morsel[str]]:
    ((name, morsel),) = SimpleCookie(reply.headers["set-cookie"]).items()
    return name, morsel


async def test_the_audit_log_has_the_address_that_a_trusted_proxy_tells(proxied: Api) -> None:
    assert await address_of_change(proxied, X_Forwarded_For=f"198.51.100.1, {CLIENT}, 10.0.0.7") == CLIENT
    assert await address_of_change(proxied) == "127.0.0.1"


async def test_what_anybody_else_says_is_not_believed(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("ops", "admin")
    for trusted in ("", "10.0.0.0/8"):
        async with serving(scheduler, trusted_proxies=trusted) as api:
            mine = api.with_key(key.text)
            assert await address_of_change(mine, X_Forwarded_For=CLIENT) == "127.0.0.1"
            reply = await mine.post("/api/session", headers={"X-Forwarded-Proto": "https"})
            assert cookie(reply)[0] == "mainspring_session"


async def test_each_client_behind_a_proxy_has_limits_of_his_own(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    await scheduler.api_keys.create("ops", "admin")
    async with serving(scheduler, trusted_proxies="127.0.0.1", requests_per_minute=2) as api:

        async def ask(client: str) -> int:
            return (await api.get("/api/session", headers={"X-Forwarded-For": client})).status

        assert [await ask(CLIENT) for _ in range(5)] == [401] * 4 + [429]
        assert await ask("203.0.113.10") == 401
        assert await ask(f"203.0.113.10, {CLIENT}") == 429, "what he says of himself does not help him"


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id"])
async def test_a_request_through_a_trusted_proxy_is_never_one_of_this_machine(
    make_scheduler: Make, header: str
) -> None:
    async with serving(make_scheduler(), trusted_proxies="127.0.0.1") as api:
        reply = await api.get("/api/session", headers={header: "127.0.0.1"})
    assert reply.status == 401 and "from this very machine" in reply.body["detail"]


async def test_the_cookie_of_a_session_needs_tls_where_the_proxy_speaks_it(proxied: Api) -> None:
    behind_tls = {"X-Forwarded-For": CLIENT, "X-Forwarded-Proto": "https"}
    name, morsel = cookie(await proxied.post("/api/session", headers=behind_tls))
    assert (name, morsel["secure"], morsel["path"]) == ("__Host-mainspring_session", True, "/")
    browser = Api(proxied.url, proxied.session, proxied.scheduler)
    browser.headers = {"Cookie": f"{name}={morsel.value}"}
    assert (await browser.get("/api/session", headers=behind_tls)).status == 200
    assert (await browser.get("/api/session", headers={"X-Forwarded-Proto": "http"})).status == 401
    elsewhere = {"X-Forwarded-Proto": "http", "Host": "jobs.example.com"}
    assert cookie(await proxied.post("/api/session", headers=elsewhere))[1]["secure"], "never without TLS elsewhere"


# -- who the client is -----------------------------------------------------------------------------------------------


async def seen(peer: str, *headers: tuple[str, str], trusted: str = "10.0.0.0/8,::1,fd00::/8") -> Scope:
    """The request as it is behind the proxies' words."""
    found: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope)

    async def receive() -> Message:
        raise AssertionError("nobody asks for the body")

    async def send(message: Message) -> None:
        raise AssertionError("nobody answers")

    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    scope: Scope = {"type": "http", "client": (peer, 4711), "scheme": "http", "headers": raw}
    await TrustedProxies(app, read_proxies(trusted))(scope, receive, send)
    return found[0]


@pytest.mark.parametrize(
    ("peer", "told", "client"),
    [
        ("10.0.0.5", CLIENT, CLIENT),
        ("10.0.0.5", f"1.2.3.4, {CLIENT}", CLIENT),
        ("10.0.0.5", f"{CLIENT},10.0.0.6 ,10.0.0.7", CLIENT),
        ("10.0.0.5", "10.0.0.9, 10.0.0.6", "10.0.0.9"),
        ("10.0.0.5", f"{CLIENT}:4711", CLIENT),
        ("10.0.0.5", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.5", "2001:DB8:0::1", "2001:db8::1"),
        ("10.0.0.5", f"{CLIENT}, fd00::2, ::ffff:10.0.0.6", CLIENT),
        ("::ffff:10.0.0.5", f"::ffff:{CLIENT}", CLIENT),
        ("::1", CLIENT, CLIENT),
        ("10.0.0.5", "127.0.0.1", "127.0.0.1"),
        ("10.0.0.5", "", "10.0.0.5"),
        ("10.0.0.5", " , ,", "10.0.0.5"),
        ("10.0.0.5", "unknown", "10.0.0.5"),
        ("10.0.0.5", f"{CLIENT}, unknown, 10.0.0.6", "10.0.0.6"),
        ("10.0.0.5", f"{CLIENT}, <script>, 10.0.0.6", "10.0.0.6"),
        ("10.0.0.5", "[::1", "10.0.0.5"),
        ("10.0.0.5", "\xb2\xb2.1.1.1", "10.0.0.5"),
        ("10.0.0.5", "9" * 5000, "10.0.0.5"),
        ("192.0.2.1", CLIENT, "192.0.2.1"),
        ("11.0.0.5", "10.0.0.5", "11.0.0.5"),
        ("", CLIENT, ""),
    ],
)
async def test_the_client_is_the_rightmost_address_that_is_no_trusted_proxy(peer: str, told: str, client: str) -> None:
    assert (await seen(peer, ("X-Forwarded-For", told)))["client"][0] == client


async def test_a_header_that_comes_twice_is_read_in_its_order() -> None:
    scope = await seen("10.0.0.5", ("X-Forwarded-For", "1.2.3.4"), ("X-Forwarded-For", f"{CLIENT}, 10.0.0.6"))
    assert scope["client"][0] == CLIENT


@pytest.mark.parametrize(
    ("told", "scheme"),
    [("https", "https"), ("HTTPS", "https"), ("https, http", "http"), ("gopher", "http"), ("", "http")],
)
async def test_the_scheme_is_what_the_nearest_proxy_says(told: str, scheme: str) -> None:
    scope = await seen("10.0.0.5", ("X-Forwarded-Proto", told))
    assert (scope["scheme"], scope[FORWARDED]) == (scheme, True)
    other = await seen("192.0.2.1", ("X-Forwarded-Proto", told))
    assert (other["scheme"], FORWARDED in other) == ("http", False)


# -- the setting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("proxy.internal", "'proxy.internal' is neither an address nor a network"),
        ("10.0.0.1;10.0.0.2", "is neither an address nor a network"),
        ("10.0.0.5, 10.1.2.3/16", "'10.1.2.3/16' is neither an address nor a network"),
        ("*", "is neither an address nor a network"),
        ("10.0.0.0/33", "is neither an address nor a network"),
        ("0.0.0.0/0", "is every address"),
        ("::/0", "is every address"),
    ],
)
def test_proxies_that_are_none_are_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setenv("MAINSPRING_TRUSTED_PROXIES", text)
    with pytest.raises(ConfigurationError, match="MAINSPRING_TRUSTED_PROXIES is wrong") as caught:
        service_settings()
    assert message in str(caught.value)


def test_nobody_is_trusted_by_default() -> None:
    assert service_settings().trusted_proxies == ""
    assert read_proxies(" , ") == ()
