"""Hostile values in everything that a list, a search or a create takes: no error of the service, no wider result."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

from attack.areas.reach import all_routes
from attack.asking import Answer
from attack.books import Row, probe
from attack.stage import Stage
from attack.tenants import foreign_in, settle

_VALUES = (
    '{"$ne": null}',
    '{"$gt": ""}',
    '{"$where": "sleep(5000)"}',
    '{"$regex": ".*"}',
    "[$ne]=1",
    "$where",
    "' || 1==1 //",
    "'; return true; var x='",
    "\x00",
    "\r\nSet-Cookie: a=b",
    "../../../etc/passwd",
    "%00",
    "%",
    "-1",
    "0",
    "99999999999999999999",
    "1e309",
    "NaN",
    "true",
    "null",
    "[]",
    "(a+)+$",
    "^" + "(.*)*" * 8 + "!",
    "\ud7ff\uffff\u202e\u0000",
    "x" * 3000,
    "{{7*7}}",
    "<script>alert(1)</script>",
    "2026-13-45T99:99:99Z",
)
_OPERATORS = frozenset(one for one in _VALUES if "$" in one and not one.startswith(("(", "^")))
_NESTED = ("$ne", "$gt", "$where", "$regex", "$in", "__proto__", "constructor")
_AT_ONCE = 8
_SLOWEST = 10.0
"""Seconds after which an answer is one that a hostile value has made slow; a busy machine takes one or two."""


@probe("lists", "No value of a parameter of a list is an operator, widens a result or breaks the service", fast=True)
async def parameters(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    await stage.end(await stage.made("tenant", name="boom", queue="qa", tags=["own"]))
    for path in ("/api/jobs", "/api/jobs/search", "/api/jobs/export", "/api/dead-letters"):
        listed = await stage.client.get(path, "tenant")
        row.control(_listed(listed), f"the tenant has things of its own: {listed}")
    found = [one for one in await all_routes(stage, {}) if one.method == "GET" and not one.names and one.query]
    tries = [(route.path, name, value) for route in found for name in route.query for value in _VALUES]
    tries += [(route.path, f"{name}[{op}]", "") for route in found for name in route.query for op in _NESTED[:2]]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def attack(path: str, name: str, value: str) -> None:
        by = "admin" if path.startswith("/api/audit") else "tenant"
        async with gate:
            began = asyncio.get_running_loop().time()
            answer = await stage.client.get(f"{path}?{quote(name)}={quote(value, errors='replace')}", by)
            took = asyncio.get_running_loop().time() - began
        told = [] if by == "admin" else foreign_in(answer.text, answer.request, foreign)
        told += _listed(answer)[:3] if value in _OPERATORS or "[" in name else []
        held = 0 < answer.status < 500 and not _is_slow(stage, took) and not told
        row.check(held, f"{answer} after {took:.1f} s, told {told}")

    await asyncio.gather(*(attack(*one) for one in stage.some(tries, 40)))


def _listed(answer: Answer) -> list[str]:
    """What an answer lists: items of a page, lines of an export, and counts that are not 0. Nothing is named like an
    operator, so that a list that is filtered by one is empty."""
    if not answer.ok:
        return []
    if not isinstance(answer.body, dict) or "jobs/export" in answer.request:
        return [line for line in answer.text.splitlines() if line.startswith("{")]
    found = answer.body.get("jobs", answer.data)
    items = found if isinstance(found, list) else []
    return [str(one) for one in items if not isinstance(one, dict) or one.get("count") != 0]


_FIELDS = (
    *(
        "_id",
        "v",
        "state",
        "ready",
        "waiting_for",
        "line",
        "seq",
        "rev",
        "token",
        "tries",
        "attempts",
        "worker",
        "claim",
    ),
    *("lease_until", "claimed_at", "created_at", "finished_at", "result", "error", "max_attempts", "once", "cancel"),
    *("steps", "sealed", "fingerprint", "redrive", "requests", "mapped", "alert", "suspect", "ahead", "schedule_id"),
    *("parent_id", "scheduled_for", "actor", "role", "scope", "hash", "$set", "__proto__", "constructor.prototype"),
)


@probe("lists", "Fields that belong to the server cannot be set by a request", fast=True)
async def mass_assignment(stage: Stage, row: Row) -> None:
    body: dict[str, Any] = {"name": "plain", "queue": "qa", "delay": "1h"}
    row.control((await stage.client.post("/api/jobs", "tenant", body)).ok, "the job without them")
    for name in stage.some(_FIELDS, 12):
        answer = await stage.client.post("/api/jobs", "tenant", {**body, name: "x"})
        row.check(answer.status == 422, answer)
    for name in ("hash", "created_by", "id", "last_used_at", "revoked_at", "old_hash"):
        answer = await stage.client.post("/api/keys", "admin", {"name": "x", "role": "viewer", name: "x"})
        row.check(answer.status == 422, answer)


def _deep(levels: int) -> str:
    return '{"name": "plain", "data": ' + '{"a": ' * levels + "1" + "}" * levels + "}"


_BODIES: tuple[bytes, ...] = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"\x00",
    b"\xff\xfe\x00",
    b'{"name": "plain", "name": "boom"}',
    b'{"name": {"$ne": null}}',
    b'{"name": ["plain"]}',
    b'{"name": "plain", "priority": "1"}',
    b'{"name": "plain", "priority": 99999999999999999999}',
    b'{"name": "plain", "priority": NaN}',
    b'{"name": "plain", "data": {"$where": "sleep(5000)"}}',
    b'{"name": "plain", "data": {"a": Infinity}}',
    b'{"name": "plain", "data": {"a": 1e999}}',
    b'{"name": "plain", "data": {"a\\u0000b": 1}}',
    b'{"name": "\\u0000"}',
    b'{"name": "plain", "delay": "1e9d"}',
    b'{"name": "plain", "runAt": "9999-99-99T00:00:00Z"}',
    b'{"name": "plain", "schedule": "* * 31 2 *"}',
    b'{"name": "plain", "schedule": "*/0 * * * *"}',
    b'{"name": "plain", "schedule": "' + b"1," * 250 + b'1 * * * *"}',
    b'{"name": "plain", "repeat": {"rrule": "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"}}',
    b'{"name": "plain", "repeat": {"rrule": "FREQ=YEARLY;INTERVAL=99999999999"}}',
    b'{"name": "plain", "every": 0}',
    b'{"name": "plain", "every": -1}',
    b'{"name": "plain", "timezone": "../../etc/passwd", "schedule": "0 0 * * *"}',
    b'{"name": "plain", "data": ' + b"9" * 100_000 + b"}",
    b'{"name": "plain", "queue": "' + b"q" * 100_000 + b'"}',
    b'{"name": "plain", "tags": ' + json.dumps(["t"] * 5000).encode() + b"}",
    _deep(100).encode(),
    _deep(5000).encode(),
    _deep(100_000).encode(),
    b'{"name": "mainspring:http", "data": {"request": {"url": "http://127.0.0.1/"}}}',
    b'{"name": "mainspring:email", "data": {"to": "x@evil.test"}}',
    b"[" * 100_000,
)


@probe("lists", "No body breaks the service, however it is made", fast=True)
async def bodies(stage: Stage, row: Row) -> None:
    paths = ("/api/jobs", "/api/jobs/bulk", "/api/schedules/preview", "/api/v1/create-job")
    tries = [(path, "json", body) for path in paths for body in _BODIES]
    tries += [("/api/jobs/bulk", "x-ndjson", body) for body in _BODIES]
    for path, kind, body in stage.some(tries, 20):
        began = asyncio.get_running_loop().time()
        answer = await stage.client.ask(
            "POST", path, "operator", data=body, headers={"Content-Type": f"application/{kind}"}
        )
        took = asyncio.get_running_loop().time() - began
        inside = '"status":500' in answer.text  # a bulk answers each of its lines
        row.check(0 < answer.status < 500 and not inside and not _is_slow(stage, took), _short(answer, took))
    row.control((await stage.client.get("/api/session", "operator")).ok, "the service answers")


def _is_slow(stage: Stage, took: float) -> bool:
    """Whether an answer took too long; a quick run, beside the tests, says nothing of time."""
    return not stage.quick and took > _SLOWEST


def _short(answer: Answer, took: float) -> str:
    return f"{answer.request[:300]} → {answer.status} after {took:.1f} s {answer.text[:200]}"


_CURSORS = (
    *("x", "0", "-1", "eyJhIjoxfQ==", "e30=", "W10=", "bnVsbA==", "////", "%00", "../..", "A" * 4000),
    *("eyIkd2hlcmUiOiIxIn0=", "eyJhdCI6eyIkZ3QiOiIifX0=", "ZmZmZmZmZmZmZmZmZmZmZg==", "{}", '{"$gt":""}'),
)


@probe("lists", "No cursor leads out of a list, or out of a caller's reach", fast=True)
async def cursors(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    paths = ("/api/jobs", "/api/jobs/search", "/api/schedules", "/api/dead-letters", "/api/v1/jobs")
    given = list(_CURSORS)
    for path in paths:
        page = await stage.client.get(f"{path}?limit=1", "admin")
        given += [page.body["next"]] if page.ok and page.body.get("next") else []
    for path in paths:
        for cursor in stage.some(given, 6):
            answer = await stage.client.get(f"{path}?limit=100&cursor={quote(cursor)}", "tenant")
            told = foreign_in(answer.text, answer.request, foreign)
            row.check(0 < answer.status < 500 and not told, f"{answer} told {told}")


_TRAVERSALS = (
    *("/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/..%252f..%252fapp.py"),
    *("/static/....//app.py", "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/..\\..\\app.py"),
    *("/static/..%5c..%5capp.py", "/static/%c0%ae%c0%ae/app.py", "/static/docs.js%00.html", "/static/./../../pages.py"),
    *("/../../etc/passwd", "/docs/../../../etc/passwd", "//evil.test/%2f..", "/static/.%2e/.%2e/.%2e/etc/passwd"),
)


@probe("lists", "No path leads out of the folder of static files", fast=True)
async def traversal(stage: Stage, row: Row) -> None:
    row.control((await stage.client.get("/docs")).ok, "the page of the documentation")
    for path in _TRAVERSALS:
        answer = await stage.client.get(path)
        leaked = "root:" in answer.text or "import " in answer.text
        row.check(answer.status >= 300 and answer.status < 500 and not leaked, answer)
