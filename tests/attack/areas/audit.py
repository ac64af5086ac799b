"""The audit log against a program that can write to the database, and what it has to tell."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any

from pymongo import AsyncMongoClient

from attack.areas.secrets import put_secret
from attack.areas.streams import comes
from attack.books import Row, probe
from attack.stage import Stage
from attack.targets import OTHER
from mainspring import AuditEntry, AuditLink, Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.model.access.audit import BEGINNING, hash_of

_ROWS = 40
Documents = list[dict[str, Any]]


class Log:
    """An audit log in a database of its own, and the attacker's ways with it."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._key = {"a1": os.urandom(32)}
        self._attacker = AsyncMongoClient[dict[str, Any]](uri)
        self.db = self._attacker.get_default_database()

    async def write(self, rows: int) -> None:
        scheduler = Scheduler(self._uri, audit_keys=self._key)
        try:
            for number in range(rows):
                await ServiceBackend(scheduler).note_change(
                    AuditEntry("key:x", "job.cancel", f"job-{number}", after={"n": number})
                )
        finally:
            await scheduler.stop()

    async def is_in_order(self, known: AuditLink | None = None) -> bool:
        """What a process says that was started just now, and remembers nothing but perhaps an end of the log."""
        fresh = Scheduler(self._uri, audit_keys=self._key)
        try:
            return (await fresh.audit.verify(known=known)).ok
        finally:
            await fresh.stop()

    async def read(self) -> tuple[Documents, Documents]:
        rows = await self.db["jobs.audit"].find(sort=[("_id", 1)], hint=[("_id", 1)]).to_list(None)
        return rows, await self.db["jobs.audit.head"].find(hint=[("_id", 1)]).to_list(None)

    async def put(self, rows: Documents, head: Documents) -> None:
        for name, documents in (("jobs.audit", rows), ("jobs.audit.head", head)):
            await self.db[name].delete_many({"_id": {"$exists": True}}, hint=[("_id", 1)])
            if documents:
                await self.db[name].insert_many(documents)

    async def close(self) -> None:
        await self._attacker.close()


def _chained(rows: Documents, key: bytes | None, key_id: str | None) -> Documents:
    """The rows with hashes that fit, made without the key, or with another one."""
    made, before = [], BEGINNING
    for document in rows:
        row = {**document, "prev": before, "key": key_id}
        fields = {**{name: value for name, value in row.items() if name != "_id"}, "n": row["_id"]}
        fields["at"] = fields["at"].replace(tzinfo=UTC)
        row["hash"] = before = hash_of(fields, key)
        made.append(row)
    return made


def _headed(rows: Documents, head: Documents, **changes: Any) -> Documents:
    """The head as it would be for these rows."""
    last = rows[-1] if rows else {"_id": 0, "hash": BEGINNING, "at": head[0]["at"]}
    return [{**head[0], "n": last["_id"], "hash": last["hash"], "at": last["at"], **changes}]


def _edited(rows: Documents) -> Documents:
    return [{**row, "target": "another"} if row["_id"] == 7 else row for row in rows]


Tampering = Callable[[Documents, Documents], tuple[Documents, Documents]]
_TAMPERING: dict[str, Tampering] = {
    "a row edited": lambda rows, head: (_edited(rows), head),
    "a row removed": lambda rows, head: (rows[:9] + rows[10:], head),
    "a row added": lambda rows, head: ([*rows, {**rows[-1], "_id": len(rows) + 1}], head),
    "a row added before the first": lambda rows, head: ([{**rows[0], "_id": 0}, *rows], head),
    "two rows swapped": lambda rows, head: (
        [{**rows[1], "_id": 1}, {**rows[0], "_id": 2}, *rows[2:]],
        head,
    ),
    "the end cut off": lambda rows, head: (rows[:-5], head),
    "the end cut off, with the head": lambda rows, head: (rows[:-5], _headed(rows[:-5], head)),
    "the end cut off, without a head": lambda rows, head: (rows[:-5], []),
    "written anew without the key": lambda rows, head: (
        (made := _chained(_edited(rows), None, None)),
        _headed(made, head, key=None, mac=None),
    ),
    "written anew with the key's id": lambda rows, head: (
        (made := _chained(_edited(rows), None, "a1")),
        _headed(made, head),
    ),
    "written anew with another key": lambda rows, head: (
        (made := _chained(_edited(rows), b"k" * 32, "a1")),
        _headed(made, head),
    ),
    "written anew with an unknown key": lambda rows, head: (
        (made := _chained(_edited(rows), b"k" * 32, "zz")),
        _headed(made, head, key="zz"),
    ),
    "a seal made without the key": lambda rows, head: (
        (made := _chained([*_edited(rows)[:-1], {**rows[-1], "action": "audit.seal"}], None, None)),
        _headed(made, head, key=None, mac=None),
    ),
}


@probe("audit", "Whatever a program without the key does to the audit log is noticed, after a restart too", fast=True)
async def tampering(stage: Stage, row: Row) -> None:
    log = Log(stage.spare())
    try:
        await log.write(12 if stage.quick else _ROWS)
        rows, head = await log.read()
        row.control(rows and head and await log.is_in_order(), "the log is in order")
        for how, tamper in stage.some(_TAMPERING.items(), 6):
            await log.put(*tamper([dict(one) for one in rows], [dict(one) for one in head]))
            row.check(await _noticed(log.is_in_order), f"{how}: the log counts as in order")
            await log.put(rows, head)
        row.control(await log.is_in_order(), "the log as it was is in order")
        # Where nothing is left, only an end that was kept elsewhere can tell; the service logs it for that.
        end = AuditLink(rows[-1]["_id"], rows[-1]["hash"], rows[-1]["at"].replace(tzinfo=UTC))
        await log.put([], [])
        row.check(await _noticed(lambda: log.is_in_order(end)), "all removed: the log counts as in order")
    finally:
        await log.close()


async def _noticed(is_in_order: Callable[[], Awaitable[bool]]) -> bool:
    """Whether a log does not count as in order; one whose key is not known cannot be checked, which says so."""
    try:
        return not await is_in_order()
    except Exception:
        return True


@probe(
    "audit", "The audit log tells of bulks, of refused keys and of uses of secrets, and no viewer fills it", fast=True
)
async def gaps(stage: Stage, row: Row) -> None:
    lines = [{"name": "plain", "queue": "qa", "delay": "1h"} for _ in range(30)]
    bulk = await stage.client.post("/api/jobs/bulk", "tenant", lines)
    row.control(bulk.ok, bulk)
    ids = [json.loads(line)["jobId"] for line in bulk.text.splitlines() if '"jobId"' in line]
    told = await _newest(stage, "job.bulk")
    row.check(ids and all(one in json.dumps(told) for one in ids), f"{bulk.request[:200]} → {json.dumps(told)[:500]}")
    row.check(told.get("actor") == f"key:{stage.key_id('tenant')}", f"the creator is not told: {told.get('actor')}")
    await put_secret(stage, "audited")
    url = stage.targets.url("/audited", OTHER)
    answer, job = await stage.hook("operator", endpoint=url, headers={"X-Key": "secret://audited"})
    row.control(job is not None and job.state == "completed", answer)
    row.check(await comes(lambda: _is_told(stage, "audited"), 20), "the use of a secret is not in the log")
    row.check(await comes(lambda: _refusal_is_told(stage, "127.0.0.77"), 90), "refused keys are told of nowhere")
    before = (await _rows(stage))[0]["n"]
    for _ in range(50):
        await stage.client.post("/api/session", "viewer")
        await stage.client.get("/api/session", "viewer")
    after = (await _rows(stage))[0]["n"]
    row.check(after - before < 25, f"a viewer added {after - before} rows with 50 logins")


async def _is_told(stage: Stage, name: str) -> bool:
    """Whether the log tells of the use of a secret; workers write such rows about once a second."""
    used = [one for one in await _rows(stage) if one["action"] == "secret.use"]
    return any(name in json.dumps(one) for one in used)


async def _refusal_is_told(stage: Stage, address: str) -> bool:
    """Whether a refused key of an address is told; some are told a minute, and other tries may have used them up."""
    wrong = {"Authorization": f"Bearer ms_{stage.key_id('operator')}_{0:043d}"}
    await stage.client.get("/api/session", headers=wrong, source=address)
    if address in json.dumps(await _rows(stage)) + stage.service.command.output:
        return True
    await asyncio.sleep(3)
    return False


async def _rows(stage: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await stage.client.get("/api/audit?limit=200", "admin")).data
    return found


async def _newest(stage: Stage, action: str) -> dict[str, Any]:
    return next((one for one in await _rows(stage) if one["action"] == action), {})


@probe("audit", "`mainspring audit verify` says so, with its exit status")
async def command(stage: Stage, row: Row) -> None:
    where = ("--data", str(stage.data)) if stage.place.startswith("embedded:") else ("--uri", stage.place)
    verified = stage.run("audit", "verify", *where)
    row.control(await asyncio.to_thread(verified.wait, 90) == 0, verified.output)
    n = (await _rows(stage))[3]["n"]
    kept = await stage.db["jobs.audit"].find_one({"_id": n})
    await stage.db["jobs.audit"].update_one({"_id": n}, {"$set": {"target": "another"}})
    broken = stage.run("audit", "verify", *where)
    code = await asyncio.to_thread(broken.wait, 90)
    row.check(code == 1 and str(n) in broken.output, f"mainspring audit verify → {code}: {broken.output}")
    answer = await stage.client.get("/api/audit/verify", "admin")
    row.check(answer.ok and answer.data["ok"] is False and answer.data["broken"] == n, answer)
    await stage.db["jobs.audit"].replace_one({"_id": n}, kept)
    answer = await stage.client.get("/api/audit/verify", "admin")
    row.control(answer.ok and answer.data["ok"], answer)
