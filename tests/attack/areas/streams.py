"""Streams of events: what they tell, what their ids hold, and when they end."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId

from attack.asking import Stream
from attack.books import Row, probe
from attack.stage import FOREIGN, FOREIGN_QUEUE, Stage
from attack.tenants import Foreign, foreign_in, settle
from harness.waiting import eventually

_OWN: dict[str, dict[str, Any]] = {
    "tenant": {"queue": "qa", "name": "plain"},
    "tenant-viewer": {"queue": "qa", "name": "plain"},
    "tenant-admin": {"queue": "qa", "name": "plain"},
    "prefix": {"queue": "anywhere", "name": "p.plain"},
    "both": {"queue": "qa", "name": "pq.plain"},
}
"""A job that each caller is told of."""


@probe(
    "streams",
    "A stream tells a tenant of nothing that another one does, not in the ids of its events either",
    fast=True,
)
async def foreign_events(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    places = [(by, "") for by in _OWN]
    places += [("tenant", f"?queue={FOREIGN_QUEUE}"), ("tenant", f"?id={foreign.job}"), ("prefix", "?name=plain")]
    async with AsyncExitStack() as stack:
        whole = await stack.enter_async_context(stage.client.listen("/api/events", "admin"))
        await eventually(lambda: whole.ids)
        first = whole.ids[0]
        streams = [
            (by, await stack.enter_async_context(stage.client.listen(f"/api/events{query}", by)))
            for by, query in stage.some(places, 4)
        ]
        replay = await stack.enter_async_context(
            stage.client.listen("/api/events", "tenant", **{"Last-Event-ID": first})
        )
        await _stir(stage)
        for by, stream in streams:
            if "?" not in stream.request:
                await _told(stage, by, stream)
        await eventually(lambda: f"{FOREIGN_QUEUE}:stirred" in whole.text)
        try:
            if not stage.quick:
                await _until_beats(stage, [stream for _, stream in streams])
        finally:  # a stream that tells too much may have no beats
            for _, stream in (*streams, ("tenant", replay)):
                _check(row, stream, foreign)


async def _stir(stage: Stage) -> None:
    """Let the foreign tenant do a few things of every kind."""
    own = {"queue": FOREIGN_QUEUE, "data": {"x": f"{FOREIGN}-stirred"}}
    ids = [await stage.made("foreign", name=name, **own) for name in ("plain", "boom", "plain")]
    await stage.ends(ids)
    await stage.made("foreign", name="plain", id=f"{FOREIGN_QUEUE}:stirred", schedule="0 0 1 1 *", **own)
    await stage.client.ask("DELETE", f"/api/schedules/{FOREIGN_QUEUE}:stirred", "foreign")
    pause = {"queue": f"{FOREIGN}-other", "reason": f"{FOREIGN}-reason"}
    await stage.client.post("/api/pauses", "admin", pause)
    await stage.client.post("/api/pauses/resume", "admin", {"queue": f"{FOREIGN}-other"})


async def _until_beats(stage: Stage, streams: list[Stream]) -> None:
    """Let the foreign tenant write, under ids that tell of it, until each stream has had a beat: its id is a place in
    what the database has just been told."""
    number = 0
    before = [stream.text.count("beat") for stream in streams]

    async def beaten() -> bool:
        nonlocal number
        number += 1
        document = {"_id": f"{FOREIGN}-customer-{number}", "name": "plain", "queue": FOREIGN_QUEUE}
        await stage.db.jobs.insert_one(document)
        return all(stream.text.count("beat") > one for stream, one in zip(streams, before, strict=True))

    await eventually(beaten, 40, 0.1)


async def _told(stage: Stage, by: str, stream: Stream) -> None:
    """A stream tells of what its caller reaches."""
    job = await stage.made("admin", **_OWN[by])
    await eventually(lambda: job in stream.text)


def _check(row: Row, stream: Stream, foreign: Foreign) -> None:
    told = foreign_in(stream.text, stream.request, foreign)
    row.check(stream.status == 200 and not told, f"{stream.request} told {told}: {stream.text[-500:]}")
    # A place of the database holds the id of the document that was changed, of a job that the stream tells of as well.
    named = [ObjectId(one).binary for one in re.findall(r'"id":"([0-9a-f]{24})"', stream.text)]
    hidden = [
        one
        for one in stream.ids
        if _holds(one, foreign) or any(part in _decoded(one) for part in (FOREIGN.encode(), *named))
    ]
    row.check(not hidden, f"{stream.request} has the event ids {hidden[:3]}")


def _decoded(text: str) -> bytes:
    """All that a text may stand for: hex, or base64 of either kind."""
    found = b""
    padded = text + "=" * (-len(text) % 4)
    for read in (bytes.fromhex, base64.b64decode, base64.urlsafe_b64decode):
        try:
            found += read(text if read is bytes.fromhex else padded)
        except (ValueError, binascii.Error):
            continue
    return found


def _holds(text: str, foreign: Foreign) -> bool:
    return any(one.lower() in text.lower() for one in foreign.ids)


@probe("streams", "The streams of a key end with it: when it is revoked, rotated or expires")
async def ended_keys(stage: Stage, row: Row) -> None:
    await _ends(stage, row, "revoked", lambda key: ("DELETE", f"/api/keys/{key}", None))
    await _ends(stage, row, "rotated", lambda key: ("POST", f"/api/keys/{key}/rotate", {}))
    end = datetime.now(UTC) + timedelta(seconds=8)
    made = await stage.make_key("listener-expiring", role="viewer", expiresAt=end.isoformat().replace("+00:00", "Z"))
    row.control(made.ok, made)
    async with stage.client.listen("/api/events", "listener-expiring") as stream:
        row.control(stream.status == 200, stream.request)
        row.check(await comes(lambda: stream.ended, 25), f"{stream.request}: open 15 s after its key had expired")


async def _ends(stage: Stage, row: Row, how: str, act: Any) -> None:
    name = f"listener-{how}"
    made = await stage.make_key(name, role="viewer", queues=["qa"])
    assert made.ok, made
    async with stage.client.listen("/api/events", name) as stream:
        await eventually(lambda: stream.ids)
        method, path, body = act(stage.key_id(name))
        answer = await stage.client.ask(method, path, "admin", json=body)
        row.control(answer.ok, answer)
        row.check(await comes(lambda: stream.ended, 10), f"{stream.request}: open 10 s after its key was {how}")


async def comes(fact: Callable[[], bool | Awaitable[bool]], seconds: float) -> bool:
    """Whether something becomes true within some seconds."""
    try:
        await eventually(fact, seconds)
    except AssertionError:
        return False
    return True


@probe("streams", "One key cannot take the streams of all others")
async def many_streams(stage: Stage, row: Row) -> None:
    made = await stage.make_key("hoarder", role="viewer", queues=["qa"])
    assert made.ok, made
    refused = 0
    async with AsyncExitStack() as stack:
        for _ in range(110):
            stream = await stack.enter_async_context(stage.client.listen("/api/events", "hoarder"))
            refused += stream.status == 429
        row.control(refused, "some of 110 streams of one key are refused")
        for by in ("admin", "tenant", "viewer"):
            stream = await stack.enter_async_context(stage.client.listen("/api/events", by))
            row.check(stream.status == 200, f"{stream.request} → {stream.status} while another key has its streams")
