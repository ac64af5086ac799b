"""Secrets planted wherever the service takes one, and then looked for in all that it tells, logs and stores.

Three kinds: those that must be found nowhere; those that were written in the clear into headers or data, which are
stored as they are (docs/howto/secrets.md says so) and are not shown; and one that everybody may see, which proves that
the search finds what is there.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import psutil  # type: ignore[import-untyped]
import pytest
from multidict import CIMultiDict

from harness import mail
from harness.canaries import UNCOMPRESSED, Canaries, documents, files
from harness.commands import Command
from harness.servers import Servers
from harness.sinks import Received, Sink
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.api.settings import service_settings
from mainspring.client.outgoing.builtin_jobs import smtp_settings
from mainspring.jobtypes.http.signing import new_secret

Start = Callable[..., Command]
HOOK = {"endpoint": "https://example.com/hook"}


async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
    """Answer with all that came, as a debugging server would; how is in the path."""
    status, _, how = request.path.strip("/").partition("-")
    key = request.header("X-Key") or ""
    told = [f"X-Echo-{name}: {value}" for name, value in request.headers]
    told += [f"Location: http://me:{key}@127.0.0.1:1/{key}"] if how == "location" else []
    body = f"{request.headers!r} {request.body!r}".encode()
    length = len(body) + (9 if how == "cut" else 0)
    head = f"HTTP/1.1 {status} Said {key}\r\nConnection: close\r\nContent-Length: {length}\r\n" + "\r\n".join(told)
    writer.write(f"{key} is no HTTP\r\n\r\n".encode() if how == "broken" else head.encode() + b"\r\n\r\n" + body)


@dataclass
class Answer:
    """What the service has said."""

    headers: Mapping[str, str]
    text: str

    @property
    def data(self) -> Any:
        return json.loads(self.text)["data"]


@dataclass
class Stage:
    """The running service, and what it may call."""

    url: str
    session: aiohttp.ClientSession
    client: Scheduler
    command: Command
    sink: Sink
    servers: Servers
    headers: dict[str, str] = field(default_factory=dict)
    heard: list[bytes] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, status: int | None = None, **options: Any) -> Answer:
        options = {"headers": self.headers, **options}
        async with self.session.request(method, self.url + path, **options) as answer:
            text = await answer.text()
            assert answer.status < 500 if status is None else answer.status == status, (path, text)
            return Answer(CIMultiDict(answer.headers), text)

    async def hear(self, method: str, path: str, status: int | None = None, **options: Any) -> None:
        """Ask, and keep the answer for the search."""
        answer = await self.ask(method, path, status, **options)
        self.heard.append(f"{answer.headers} {answer.text}".encode())

    async def create(self, sent: dict[str, str] | None = None, /, **body: Any) -> None:
        answer = await self.ask("POST", "/api/jobs", 201, json=body, headers=sent or self.headers)
        self.heard.append(answer.text.encode())
        self.ids.append(answer.data["jobId"])

    async def listen(self) -> None:
        """Keep what the stream of events tells."""
        with suppress(aiohttp.ClientError):
            async with self.session.get(f"{self.url}/api/events", headers=self.headers) as answer:
                async for line in answer.content:
                    self.heard.append(line)

    async def read_everything(self) -> list[str]:
        """What every route answers that only reads, for everything that was made."""
        routes = json.loads((await self.ask("GET", "/openapi.json")).text)["paths"]
        paths = [path for path, verbs in routes.items() if "get" in verbs and path != "/api/events"]
        assert len(paths) > 20
        filled = {re.sub(r"\{[^}]+\}", one, path) for path in paths for one in (*self.ids, "token", "http")}
        filled |= {"/docs", "/openapi.json", "/", "/api/audit?limit=100", "/api/jobs?limit=100", "/static/docs.js"}
        return [(await self.ask("GET", path)).text for path in sorted(filled)]

    def arguments(self) -> str:
        """The commands by which all its processes were started, as everybody on the machine can see them."""
        process = psutil.Process(self.command.process.pid)
        return repr([one.cmdline() for one in (process, *process.children(recursive=True))])

    def log(self, *, driver: bool) -> str:
        """What it has logged; without the driver's own lines, which repeat what is stored."""
        lines = self.command.output.splitlines()
        return "\n".join(one for one in lines if driver or not one.startswith("pymongo."))


@pytest.fixture(scope="module")
def open_servers() -> Iterator[Servers]:
    with Servers(1, name="canaries", tablescans=True, arguments=UNCOMPRESSED) as servers:
        yield servers


@pytest.fixture
def canaries() -> Canaries:
    """What must be found nowhere at all."""
    return Canaries()


def with_password(servers: Servers, password: str) -> str:
    """The URI of a database whose user has a password."""
    with servers.primary().client() as client:
        client.admin.command("createUser", "app", pwd=password, roles=["root"])
    return servers.uri("vault").replace("//", f"//app:{password}@") + "&authSource=admin"


@pytest.fixture
async def stage(start: Start, open_servers: Servers, canaries: Canaries) -> AsyncIterator[Stage]:
    key = canaries.plant("the key for encryption", base64.b64encode(os.urandom(32)).decode())
    password = canaries.plant("the password of the SMTP server")
    uri = with_password(open_servers, canaries.plant("the password of the database"))
    async with AsyncExitStack() as stack:
        sink = await stack.enter_async_context(Sink(answers=[echo]))
        smtp = await stack.enter_async_context(mail.smtp_sink(password="another", plain_login=True))
        smtp.login_reply = f"535 {password} is not the password"
        up = start(
            *("up", "loud:scheduler", "--port", "0"),
            MAINSPRING_URI=uri,
            MAINSPRING_HTTP_ALLOW="127.0.0.1",
            MAINSPRING_KEYS=f"k1:{key}",
            MAINSPRING_SMTP_URL=f"smtp://me:{password}@127.0.0.1:{smtp.port}?starttls=off",
            MAINSPRING_SMTP_FROM="me@example.com",
            MAINSPRING_SESSION_SECRET=canaries.plant("the secret of sessions"),
        )
        url = await eventually(lambda: re.search(r"API +(http://127\.0\.0\.1:\d+)", up.output) or up.process.poll())
        assert isinstance(url, re.Match), up.output
        # A connection is closed after a fault of the service; each request has one of its own.
        connector = aiohttp.TCPConnector(force_close=True)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        client = Scheduler(open_servers.uri("vault"))
        stack.push_async_callback(client.stop)
        yield Stage(url[1], session, client, up, sink, open_servers)


async def log_in(stage: Stage, canaries: Canaries) -> None:
    """From here on with an API key, which is shown once, and once more when it is rotated."""
    made = (await stage.ask("POST", "/api/keys", 201, json={"name": "ops", "role": "admin"})).data
    keep_key(stage, canaries, "an API key", made["key"])
    rotation = f"/api/keys/{made['id']}/rotate"
    rotated = (await stage.ask("POST", rotation, json={"grace": "10m"})).data
    keep_key(stage, canaries, "a rotated API key", rotated["key"])


def keep_key(stage: Stage, canaries: Canaries, place: str, text: str) -> None:
    canaries.plant(place, text)
    canaries.plant(f"the secret of {place}", text.rpartition("_")[2])
    stage.headers["Authorization"] = f"Bearer {text}"


async def log_in_by_session(stage: Stage, canaries: Canaries) -> dict[str, str]:
    """The headers of a browser; its cookie and its token are told once."""
    answer = await stage.ask("POST", "/api/session", 201)
    ((name, morsel),) = SimpleCookie(answer.headers["Set-Cookie"]).items()
    token = canaries.plant("the token of a session", answer.data["csrfToken"])
    return {"Cookie": f"{name}={canaries.plant('a session', morsel.value)}", "X-CSRF-Token": token}


async def store_secrets(stage: Stage, canaries: Canaries) -> None:
    for place, name in (("a header", "token"), ("a signature", "signer"), ("a signature anew", "signer")):
        value = canaries.plant(place, new_secret() if name == "signer" else None)
        await stage.hear("PUT", f"/api/secrets/{name}", 200, json={"value": value, "origins": ["*"], "keepOld": "10m"})


async def go_wrong(stage: Stage, canaries: Canaries) -> None:
    """Requests that are refused, with a secret in the part that is wrong, and one that meets a fault."""

    def planted(how: str) -> str:
        return canaries.plant(f"a request with {how}")

    wrong: list[tuple[str, str, Any]] = [
        ("PUT", "/api/secrets/token", {"valeu": planted("a misspelt field"), "origins": ["*"]}),
        ("PUT", "/api/secrets/token", {"value": [planted("a wrong type")], "origins": ["*"]}),
        (
            "PUT",
            "/api/secrets/token",
            {"value": planted("one field too many"), "generate": "signing", "origins": ["*"]},
        ),
        ("POST", "/api/jobs", {"endpoint": f"https://me:{planted('a password in its URL')}@example.com/"}),
        ("POST", "/api/jobs", {**HOOK, "headers": {"X-Key": [planted("a list as a header")]}}),
        ("POST", "/api/jobs", {**HOOK, "headers": {"X-Key": planted("a line break") + "\r\nX: y"}}),
        ("POST", "/api/jobs", {**HOOK, "headers": {"X-Key": planted("a template") + "{{nothing}}"}}),
        ("POST", "/api/jobs", {"name": "pay", "data": {"card": "x", "other": planted("data nobody takes")}}),
        ("POST", "/api/jobs", {"name": "pay", "data": planted("data that is none")}),
        ("POST", "/api/jobs", {"type": "email", "data": {"to": "a@b.example", "password": planted("a strange mail")}}),
        ("POST", "/api/v1/create-job", {"type": "http", "data": {"token": planted("a strange webhook")}}),
        ("POST", "/api/keys", {"name": "x", "role": planted("a strange role")}),
    ]
    for method, path, body in wrong:
        await stage.hear(method, path, 422, json=body)
    broken = {**stage.headers, "Content-Type": "application/json"}
    await stage.hear("PUT", "/api/secrets/x", 400, data=f'{{"value": "{planted("broken JSON")}', headers=broken)
    for headers in (
        {"Authorization": f"Bearer ms_abcdefghijkl_{planted('a wrong key')}"},
        {"Authorization": f"Basic {planted('another scheme')}"},
        {"Cookie": f"mainspring_session={planted('a wrong session')}"},
    ):
        await stage.hear("GET", "/api/jobs", 401, headers=headers)
    await stage.hear("PUT", "/api/calendars/x", 500, json={"days": ["2030-12-24"]})


async def call_hooks(stage: Stage, written: Canaries) -> None:
    """Webhooks whose targets say whatever they were told, in every way that an answer can."""
    for path in ("200", "404", "503", "302", "307-location", "200-broken", "200-cut"):
        await stage.create(
            endpoint=f"{stage.sink.url}/{path}",
            headers={
                "X-Key": "secret://token",
                "Authorization": f"Bearer {written.plant('a header written out')}",
                "X-Api-Key": "{{data.password}}",
            },
            body={
                "note": "{{data.note}}",
                "all": "{{data.password}}",
                "password": written.plant("a redacted field of a request"),
            },
            data={"note": "nothing", "password": written.plant("a redacted field that goes into a request")},
            signWith=["signer"],
            redirects=2 if path == "307-location" else 0,
            retryAttempts=1,
            retryDelay=0,
        )
    request = {"url": f"{stage.sink.url}/200", "headers": {"X-Key": "secret://missing"}}
    await stage.hear("POST", "/api/jobs", 422, json={"endpoint": request["url"], "headers": request["headers"]})
    stage.ids.append((await stage.client.schedule("mainspring:http", {"request": request}, queue="http")).id)


async def run_jobs(stage: Stage, canaries: Canaries, shown: Canaries, written: Canaries) -> None:
    """Jobs by every way that a secret can take, ending well and badly."""
    once = {**stage.headers, "Idempotency-Key": canaries.plant("an Idempotency-Key")}
    await stage.create(once, name="pay", data={"card": canaries.plant("a sealed field")})
    await stage.create(name="again", data={"card": canaries.plant("a sealed field of a job that is retried")})
    await stage.create(name="crash", data={"card": canaries.plant("a sealed field of a job that crashes")})
    browser = await log_in_by_session(stage, canaries)
    await stage.create(browser, name="keep", data={"card": canaries.plant("sealed data, and a sealed result")})
    await stage.create(name="login", data={"user": "me", "password": written.plant("a redacted field")})
    await stage.create(name="fetch", data={"name": "token"})
    await stage.create(name="shout", data={"note": shown.plant("what everybody may see")})
    await stage.create(type="email", data={"to": "you@example.com", "subject": "x", "message": "y"}, retryAttempts=0)


STATES = [
    *("completed", "failed", "failed", "failed", "failed", "failed", "failed", "failed"),  # of the webhooks
    *("failed", "completed", "failed", "completed", "failed", "completed", "completed", "failed"),
]


async def test_no_planted_secret_is_found_in_what_the_service_tells_logs_or_stores(
    stage: Stage, canaries: Canaries
) -> None:
    shown, written = Canaries(), Canaries()
    await log_in(stage, canaries)
    listening = asyncio.create_task(stage.listen())
    await store_secrets(stage, canaries)
    await go_wrong(stage, canaries)
    await call_hooks(stage, written)
    await run_jobs(stage, canaries, shown, written)
    assert [(await stage.client.wait(one, timeout=60)).state for one in stage.ids] == STATES
    answers, arguments = await stage.read_everything(), stage.arguments()
    stored = [documents(stage.servers), files(stage.servers)]
    listening.cancel()
    # The search finds what is there to be found, in every place.
    for place in (answers, [stage.log(driver=True)], [stage.log(driver=False)], stored[:1], stored[1:]):
        assert shown.found_in(*place) == set(shown.planted)
    assert written.found_in(stored[0]) == written.found_in(stored[1]) == set(written.planted)
    assert len(stage.heard) > 60 and any(b"event: job" in line for line in stage.heard)
    assert "loud:scheduler" in arguments and "pymongo.command DEBUG" in stage.command.output
    received = repr([(one.headers, one.body) for one in stage.sink.received])
    assert canaries.found_in(received) == {"a header"}
    # And nothing else.
    told: dict[str, Sequence[str | bytes]] = {"answers": answers, "events": stage.heard, "arguments": [arguments]}
    told["log"] = [stage.log(driver=False)]
    for name, contents in {**told, "driver's log": [stage.log(driver=True)], "database": stored}.items():
        assert (name, canaries.found_in(*contents)) == (name, set())
    for name, contents in told.items():
        assert (name, written.found_in(*contents)) == (name, set())


WRONG = [
    ("MAINSPRING_SMTP_URL", "smtp://me:{}@127.0.0.1:none"),
    ("MAINSPRING_SMTP_URL", "gopher://me:{}@127.0.0.1"),
    ("MAINSPRING_KEYS", "k1:{}"),
    ("MAINSPRING_KEYS", "{}"),
    ("MAINSPRING_URI", "mongodb://me:{}@127.0.0.1:9/x"),
    ("MAINSPRING_URI", "mongodb://me:{}@127.0.0.1:none/x"),
    ("MAINSPRING_URI", "mongodb://me:{}@%/x"),
]


def test_a_setting_that_is_wrong_is_not_repeated(start: Start, canaries: Canaries, uri: str) -> None:
    refused = ("MAINSPRING_URI", uri.replace("//", "//me:{}@"))
    ups = []
    for name, value in (*WRONG, refused):
        setting = {name: value.format(canaries.plant(value))}
        ups.append(start("up", "loud:scheduler", "--port", "0", MAINSPRING_DEBUG="1", **setting))
    assert {up.wait(90) for up in ups} <= {1, 2}
    assert [up.output for up in ups if "mainspring" not in up.output or canaries.found_in(up.output)] == []


def test_what_holds_secrets_does_not_show_them_when_it_is_printed(canaries: Canaries) -> None:
    settings = service_settings(
        smtp_url=f"smtp://me:{canaries.plant('smtp')}@127.0.0.1", session_secret=canaries.plant("sessions")
    )
    scheduler = Scheduler(
        f"mongodb://me:{canaries.plant('database')}@127.0.0.1/x",
        keys={"k1": canaries.plant("key", base64.b64encode(os.urandom(32)).decode())},
    )
    holders = (settings, settings.model_dump(), smtp_settings(settings), scheduler, scheduler.settings, vars(settings))
    assert canaries.found_in(*(f"{one!r} {one!s}" for one in holders), settings.model_dump_json()) == set()
