"""Secrets planted wherever the service takes one, and then looked for in all that it tells, logs and stores."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient

from harness import mail
from harness.commands import Command
from harness.sinks import Received, Sink
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.jobtypes.http.signing import new_secret

Start = Callable[..., Command]


@dataclass
class Canaries:
    """Secrets, each with the place it was planted in."""

    planted: dict[str, str] = field(default_factory=dict)

    def plant(self, place: str, value: str | None = None) -> str:
        return self.planted.setdefault(place, value or f"canary-{secrets.token_hex(12)}")

    def found_in(self, *contents: str | bytes) -> set[str]:
        """The places whose secrets are there, also as they are in base64 after `user:` or by themselves."""
        found = set()
        whole = b"\n".join(one.encode("utf-8", "replace") if isinstance(one, str) else one for one in contents)
        for place, value in self.planted.items():
            plain = value.encode()
            forms = [plain, base64.b64encode(plain).rstrip(b"="), plain.removeprefix(b"whsec_")]
            found |= {place} if any(form in whole for form in forms) else set()
        return found


async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
    """Answer with all that came, as a debugging server would; how is in the path."""
    status = request.path.strip("/") or "200"
    told = "\r\n".join(f"X-Echo-{name}: {value}" for name, value in request.headers)
    body = f"{request.headers!r} {request.body!r}".encode()
    head = f"HTTP/1.1 {status} Said\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{told}\r\n\r\n"
    writer.write(head.encode("latin-1") + body)


@dataclass
class Stage:
    """The running service, and what it may call."""

    url: str
    session: aiohttp.ClientSession
    client: Scheduler
    command: Command
    sink: Sink
    uri: str
    headers: dict[str, str] = field(default_factory=dict)
    heard: list[bytes] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, **options: Any) -> str:
        async with self.session.request(method, self.url + path, headers=self.headers, **options) as answer:
            text = await answer.text()
            assert answer.status < 500, (path, text)
            return text

    async def create(self, **body: Any) -> None:
        async with self.session.post(f"{self.url}/api/jobs", json=body, headers=self.headers) as answer:
            assert answer.status == 201, await answer.text()
            self.heard.append(await answer.read())
            self.ids.append((await answer.json())["data"]["jobId"])

    async def listen(self) -> None:
        """Keep what the stream of events tells."""
        with suppress(aiohttp.ClientError):
            async with self.session.get(f"{self.url}/api/events", headers=self.headers) as answer:
                async for line in answer.content:
                    self.heard.append(line)

    async def read_everything(self) -> list[str]:
        """What every route answers that only reads, for everything that was made."""
        paths = [path for path, verbs in (await self._routes()).items() if "get" in verbs and path != "/api/events"]
        assert len(paths) > 20
        filled = {re.sub(r"\{[^}]+\}", one, path) for path in paths for one in (*self.ids, "token", "http")}
        filled |= {"/docs", "/openapi.json", "/", "/api/audit?limit=100", "/api/jobs?limit=100"}
        return [await self.ask("GET", path) for path in sorted(filled)]

    async def _routes(self) -> dict[str, dict[str, Any]]:
        async with self.session.get(f"{self.url}/openapi.json", headers=self.headers) as answer:
            paths: dict[str, dict[str, Any]] = (await answer.json())["paths"]
        return paths

    async def stored(self) -> list[bytes]:
        """Every document of the database, as it is stored."""
        found: list[bytes] = []
        async with AsyncMongoClient[RawBSONDocument](self.uri, document_class=RawBSONDocument) as client:
            database = client.get_default_database()
            for name in await database.list_collection_names():
                found += [bytes(one.raw) async for one in database[name].find({}, hint="_id_")]
        return found


@pytest.fixture
def canaries() -> Canaries:
    """What must be found nowhere at all."""
    return Canaries()


@pytest.fixture
async def stage(start: Start, uri: str, client: Scheduler, canaries: Canaries) -> AsyncIterator[Stage]:
    key = canaries.plant("the key for encryption", base64.b64encode(os.urandom(32)).decode())
    password = canaries.plant("the password of the SMTP server")
    async with AsyncExitStack() as stack:
        sink = await stack.enter_async_context(Sink(answers=[echo]))
        smtp = await stack.enter_async_context(mail.smtp_sink(password="another", plain_login=True))
        smtp.login_reply = f"535 {password} is not the password"
        up = start(
            *("up", "vault:scheduler", "--port", "0", "--uri", uri),
            MAINSPRING_HTTP_ALLOW="127.0.0.1",
            MAINSPRING_KEYS=f"k1:{key}",
            MAINSPRING_SMTP_URL=f"smtp://me:{password}@127.0.0.1:{smtp.port}?starttls=off",
            MAINSPRING_SMTP_FROM="me@example.com",
        )
        url = await eventually(lambda: re.search(r"API +(http://127\.0\.0\.1:\d+)", up.output) or up.process.poll())
        assert isinstance(url, re.Match), up.output
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Stage(url[1], session, client, up, sink, uri)


async def log_in(stage: Stage, canaries: Canaries) -> None:
    """From here on with an API key, which is shown once."""
    async with stage.session.post(f"{stage.url}/api/keys", json={"name": "ops", "role": "admin"}) as answer:
        key = (await answer.json())["data"]["key"]
    canaries.plant("an API key", key)
    canaries.plant("the secret of an API key", key.rpartition("_")[2])
    stage.headers["Authorization"] = f"Bearer {key}"


async def store_secrets(stage: Stage, canaries: Canaries) -> None:
    for place, name in (("a header", "token"), ("a signature", "signer"), ("a signature anew", "signer")):
        value = canaries.plant(place, new_secret() if name == "signer" else None)
        body = {"value": value, "keepOld": 600_000}
        stage.heard.append((await stage.ask("PUT", f"/api/secrets/{name}", json=body)).encode())
    for wrong in ({"valeu": canaries.plant("a misspelt field")}, {"value": [canaries.plant("a wrong type")]}):
        stage.heard.append((await stage.ask("PUT", "/api/secrets/token", json=wrong)).encode())


async def use_everything(stage: Stage, canaries: Canaries, shown: Canaries, written: Canaries) -> None:
    """Jobs by every way that a secret can take, ending well and badly."""
    for path in ("200", "404", "503", "302"):
        await stage.create(
            endpoint=f"{stage.sink.url}/{path}",
            headers={"X-Key": "secret://token", "Authorization": f"Bearer {written.plant('a header written out')}"},
            body={"note": "{{data.note}}"},
            data={"note": "nothing"},
            signWith=["signer"],
            retryAttempts=0,
        )
    await stage.create(endpoint=f"{stage.sink.url}/200", headers={"X-Key": "secret://missing"}, retryAttempts=0)
    await stage.create(name="pay", data={"card": canaries.plant("a sealed field")})
    await stage.create(name="keep", data={"card": canaries.plant("sealed data, and a sealed result")})
    await stage.create(name="login", data={"user": "me", "password": written.plant("a redacted field")})
    await stage.create(name="fetch", data={"name": "token"})
    await stage.create(name="shout", data={"note": shown.plant("what everybody may see")})
    await stage.create(type="email", data={"to": "you@example.com", "subject": "x", "message": "y"}, retryAttempts=0)


async def test_no_planted_secret_is_found_in_what_the_service_tells_logs_or_stores(
    stage: Stage, canaries: Canaries
) -> None:
    shown, written = Canaries(), Canaries()
    await log_in(stage, canaries)
    listening = asyncio.create_task(stage.listen())
    await store_secrets(stage, canaries)
    await use_everything(stage, canaries, shown, written)
    states = [(await stage.client.wait(one, timeout=60)).state for one in stage.ids]
    assert states == ["completed", *["failed"] * 5, "completed", "failed", "completed", "completed", "failed"]
    answers, log, stored = await stage.read_everything(), stage.command.output, await stage.stored()
    listening.cancel()
    # The search finds what is there to be found, in every place.
    everything = set(shown.planted)
    assert shown.found_in(*answers) == shown.found_in(log) == shown.found_in(*stored) == everything
    assert written.found_in(*stored) == set(written.planted)
    assert len(stage.heard) > 20 and any(b"job" in line for line in stage.heard)
    received = repr([(one.headers, one.body) for one in stage.sink.received])
    assert canaries.found_in(received) == {"a header"}
    # And nothing else.
    for place, contents in (("answers", answers), ("events", stage.heard), ("log", [log]), ("database", stored)):
        assert (place, canaries.found_in(*contents)) == (place, set())
    for place, told in (("answers", answers), ("events", stage.heard), ("log", [log])):
        assert (place, written.found_in(*told)) == (place, set())
