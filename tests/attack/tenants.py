"""Two tenants with things of every kind: what the one has must not exist for the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import bson
from bson.raw_bson import RawBSONDocument

from attack.stage import FOREIGN, FOREIGN_QUEUE, Stage

MISSING = {
    "job": "6aaaaaaaaaaaaaaaaaaaaaaa",
    "schedule": "nothing-has-this-id",
    "key": "NoSuchKeyId0",
    "redrive": "6bbbbbbbbbbbbbbbbbbbbbbb",
    "operation": "6ccccccccccccccccccccccc",
    "rule": "0123456789ab",
}
"""Ids of which there is nothing."""
BY_ID = [("_id", 1)]
"""How a whole collection is read on a server that allows no scans."""
_NOT_THEIRS = ("jobs.access", "jobs.audit", "jobs.audit.head", "jobs.workers", "jobs.stats", "jobs.locks", "jobs.gates")
"""Collections that the product writes to by itself, or that note that a caller was here."""


@dataclass
class Foreign:
    """What the foreign tenant has, by the kind of thing."""

    job: str
    dead: str
    done: str
    schedule: str
    redrive: str
    operation: str
    flow: str
    rule: str
    key: str

    @property
    def ids(self) -> list[str]:
        things = [self.schedule, self.redrive, self.operation, self.flow, self.rule, self.key]
        return [self.job, self.dead, self.done, *things]

    def in_paths(self) -> dict[str, str]:
        """What to put into paths, by the names of their parameters."""
        return {
            "id": self.job,
            "job_id": self.job,
            "flow_id": self.flow,
            "schedule_id": self.schedule,
            "redrive_id": self.redrive,
            "operation_id": self.operation,
            "rule_id": self.rule,
            "key_id": self.key,
            "name": f"{FOREIGN}-thing",
            "scope": "queue",
            "target": FOREIGN_QUEUE,
            "queue": FOREIGN_QUEUE,
            "worker_id": f"{FOREIGN}-worker",
        }

    def in_fields(self) -> dict[str, Any]:
        """What to put into the bodies of requests."""
        return {
            "queue": FOREIGN_QUEUE,
            "ids": [self.dead],
            "queues": [FOREIGN_QUEUE],
            "id": self.schedule,
            "reason": "taken over",
            "start": "2026-01-01T00:00:00Z",
            "end": "2026-01-02T00:00:00Z",
        }


async def settle(stage: Stage) -> Foreign:
    """Give the foreign tenant things of every kind, once; they then stay as they are."""
    if stage.foreign is None:
        stage.foreign = await _settle(stage)
    return stage.foreign


async def _settle(stage: Stage) -> Foreign:
    own: dict[str, Any] = {"queue": FOREIGN_QUEUE, "tags": [f"{FOREIGN}-tag"], "data": {"x": f"{FOREIGN}-data"}}
    job = await stage.made("foreign", name="plain", delay="10h", dedupeKey=f"{FOREIGN}-dedupe", **own)
    dead = await stage.made("foreign", name="boom", **own)
    done = await stage.made("foreign", name="plain", **own)
    schedule = f"{FOREIGN_QUEUE}:nightly"
    await stage.made("foreign", name="plain", schedule="0 0 1 1 *", id=schedule, **own)
    await stage.ends([dead, done])
    ask = stage.client.ask
    filtered = {"filter": {"name": "nothing", "queue": FOREIGN_QUEUE}, "reason": f"{FOREIGN}-reason"}
    redrive = await ask("POST", "/api/dead-letters/discard", "foreign", json=filtered)
    assert redrive.ok, redrive
    operation = await ask("POST", "/api/operations", "foreign", json={**filtered, "verb": "cancel", "startAfter": "1h"})
    assert operation.ok, operation
    nodes = [{"job": "plain", "name": f"{FOREIGN}-node", **own}]
    flow = await ask("POST", "/api/flows", "foreign", json={"name": f"{FOREIGN}-flow", "nodes": nodes, "delay": "10h"})
    assert flow.ok, flow
    mail = {"type": "email", "to": [f"{FOREIGN}@example.com"]}
    told = {"name": f"{FOREIGN}-rule", "kind": "dead_letters", "to": [mail], "queue": FOREIGN_QUEUE, "enabled": False}
    rule = await ask("POST", "/api/alerts", "foreign", json=told)
    assert rule.ok, rule
    limit = await ask(
        "PUT", f"/api/limits/queue/{FOREIGN_QUEUE}", "admin", json={"concurrency": 7, "reason": f"{FOREIGN}-reason"}
    )
    assert limit.ok, limit
    pause = {"queue": FOREIGN_QUEUE, "key": {"x": f"{FOREIGN}-key"}, "reason": f"{FOREIGN}-reason"}
    await ask("POST", "/api/pauses", "admin", json=pause)
    await ask("PUT", f"/api/calendars/{FOREIGN}-thing", "admin", json={"days": ["2030-12-24"]})
    key = await stage.make_key("foreign-viewer", "foreign-admin", role="viewer", queues=[FOREIGN_QUEUE])
    assert key.ok, key
    made = {"redrive": redrive, "operation": operation, "flow": flow, "rule": rule}
    ids: dict[str, str] = {kind: one.data["id"] for kind, one in made.items()}
    return Foreign(job, dead, done, schedule, key=stage.key_id("foreign-viewer"), **ids)


def foreign_in(text: str, request: str, foreign: Foreign) -> list[str]:
    """What of the foreign tenant an answer tells beyond what the request has said itself."""
    known, said = [*foreign.ids, *words(text)], unquote(request)
    return sorted({one for one in known if one in text and one not in said})


def words(text: str) -> Iterable[str]:
    """The words in a text that belong to the foreign tenant."""
    start = text.find(FOREIGN)
    while start >= 0:
        end = start
        while end < len(text) and (text[end].isalnum() or text[end] in "-_."):
            end += 1
        yield text[start:end]
        start = text.find(FOREIGN, end)


async def print_of(stage: Stage, foreign: Foreign) -> dict[str, str]:
    """A print of each document that belongs to the foreign tenant: what changes none of them has no effect on it."""
    found = {}
    marks = [FOREIGN.encode(), *(one.encode() for one in foreign.ids)]
    marks += [bson.ObjectId(one).binary for one in foreign.ids if bson.ObjectId.is_valid(one)]
    for name in await stage.db.list_collection_names():
        if name in _NOT_THEIRS or name.startswith("system."):
            continue
        collection = stage.db.get_collection(name, bson.CodecOptions(document_class=RawBSONDocument))
        async for document in collection.find(hint=BY_ID):
            raw = document.raw
            if any(mark in raw for mark in marks):
                found[f"{name} {document['_id']}"] = sha256(raw).hexdigest()
    return found
