"""Documents that another program has written: none is run as code, and one that is damaged harms itself alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from attack.books import Row, probe
from attack.stage import FOREIGN, Stage
from harness.waiting import eventually

_LISTS = (
    *("/api/jobs?limit=100", "/api/v1/jobs?limit=100", "/api/jobs/search?limit=100", "/api/dead-letters?limit=100"),
    *("/api/dead-letters/groups", "/api/observability/failures", "/api/observability/stats", "/api/queues"),
    *("/api/schedules", "/api/stats", "/api/observability/health", "/api/workers", "/api/limits", "/api/pauses"),
)
_VALUES: tuple[Any, ...] = (
    *("x", 5, -1, 2**40, Int64(2**62), 1.5, float("nan"), float("inf"), None, True, [], [1, 2, 3], {}, {"$gt": 1}),
    *(
        Code("function() { return 1 }"),
        Code("x", {"a": 1}),
        Regex("(a+)+$"),
        Binary(b"\x80\x04cos\nsystem\n"),
        ObjectId(),
    ),
    *(
        Decimal128("1E6000"),
        MinKey(),
        MaxKey(),
        Timestamp(1, 1),
        datetime(1, 1, 1, tzinfo=UTC),
        "\x1b]0;owned\x07\u202e",
    ),
)
_FIELDS = (
    *("priority", "data", "token", "attempts", "tags", "queue", "state", "run_at", "created_at", "retry", "timeout"),
    *(
        "result",
        "error",
        "progress",
        "steps",
        "waiting_for",
        "log",
        "expires_at",
        "schedule_id",
        "dedupe_key",
        "sealed",
    ),
)


@probe("documents", "A damaged document is shown or left out by itself: no list, and no other job, suffers", fast=True)
async def damaged(stage: Stage, row: Row) -> None:
    known: list[dict[str, Any]] = [
        {"priority": "x"},
        {"data": [1, 2, 3]},
        {"token": "y", "attempts": "x", "v": 99},
        {"tags": 5},
    ]
    documents = known + stage.some([{name: value} for name in _FIELDS for value in _VALUES], 8)
    if not stage.quick:
        documents = known + stage.dice.sample(documents[len(known) :], 116)
    for part in (documents[:4], *(documents[at : at + 20] for at in range(4, len(documents), 20))):
        ids = [await _insert(stage, one) for one in part]
        for path in _LISTS:
            answer = await stage.client.get(path, "admin")
            held = answer.ok or (answer.status == 503 and "health" in path)
            row.check(held, f"{answer} with {part}" if len(part) < 5 else f"{answer} with one of {part}"[:1500])
        for place, one in zip(ids, part, strict=True):
            for method, path in (("GET", ""), ("GET", "/detail"), ("GET", "/executions"), ("DELETE", "")):
                answer = await stage.client.ask(method, f"/api/jobs/{place}{path}", "admin")
                row.check(0 < answer.status < 500, f"{answer} for {one}")
        await stage.db.jobs.delete_many({"_id": {"$in": [ObjectId(one) for one in ids]}})
    answer, job = await stage.hook("operator", name="plain", queue="qa")
    row.control(job is not None and job.state == "completed", f"jobs go on: {answer}")


async def _insert(stage: Stage, fields: dict[str, Any]) -> str:
    identity = ObjectId()
    await stage.db.jobs.insert_one({"_id": identity, "name": "plain", **fields})
    return str(identity)


_CODE: tuple[dict[str, Any], ...] = (
    {"name": "os:system", "data": {"command": "touch {mark}"}},
    {"name": "os.system", "data": {"args": ["touch {mark}"]}},
    {"name": "subprocess:run", "data": {"args": "touch {mark}"}},
    {"name": "builtins:eval", "data": {"source": "open('{mark}', 'w')"}},
    {"name": "__import__('os').system('touch {mark}')"},
    {"name": "plain", "data": Binary(b"cos\nsystem\n(S'touch {mark}'\ntR.")},
    {
        "name": "plain",
        "data": {"x": Binary(b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x01x\x94\x85\x94R")},
    },
    {"name": "plain", "data": {"x": Code("require('child_process').exec('touch {mark}')")}},
    {"name": "plain", "data": {"$where": "sleep(5000)"}},
    {"name": "plain", "data": {"__class__": "os.system", "__reduce__": ["os.system", "touch {mark}"]}},
    {"name": "plain", "data": {"!!python/object/apply:os.system": ["touch {mark}"]}},
    {"name": "plain", "data": {"py/object": "os.system", "py/reduce": ["touch {mark}"]}},
    {"name": "plain", "guarantee": "os.system"},
    {"name": "plain", "retry": {"backoff": "__import__('os').system('touch {mark}')"}},
    {"name": "../../etc/passwd"},
    {"name": "mainspring:http", "data": {"request": {"url": "file:///etc/passwd"}, "target": "x"}},
    {"name": "mainspring:http", "data": {"request": {"url": "http://127.0.0.1:{port}/"}, "target": "x"}},
    {"name": "mainspring:http", "data": {"request": {"url": "http://169.254.169.254/"}, "target": "x"}},
    {"name": "mainspring:http", "data": {"request": "http://127.0.0.1/"}},
    {"name": "mainspring:email", "data": {"to": "x@evil.test\r\nBcc: y@evil.test", "subject": "x", "text": "y"}},
    {"name": "mainspring:nothing", "data": {}},
    {"name": "plain", "sealed": ["k1"], "data": {"x": {"$sealed": "AAAA"}}},
    {"name": "plain", "sealed": ["k1"], "data": Binary(b"\x00" * 64, 128)},
    {"name": "plain", "sealed": "k1"},
)


def _filled(value: Any, mark: str, port: int) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, mark, port) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, mark, port) for one in value]
    if isinstance(value, str) and not isinstance(value, Code):
        return value.replace("{mark}", mark).replace("{port}", str(port))
    return value


@probe("documents", "Nothing in a document is run, imported or called that is not a registered handler", fast=True)
async def code(stage: Stage, row: Row) -> None:
    strays = len(stage.targets.strays)
    documents = stage.some(_CODE, 10)
    marks = [stage.folder / f"zqowned-{number}" for number in range(len(documents))]
    ids = [ObjectId() for _ in documents]
    for identity, document, mark in zip(ids, documents, marks, strict=True):
        filled = _filled(document, str(mark), stage.targets.port)
        await stage.db.jobs.insert_one({"_id": identity, "retry": {"attempts": 1}, **filled})
    after = await stage.made("operator", name="plain", queue="qa", priority=10)
    await stage.end(after)

    async def looked_at() -> bool:
        """Whether the worker has dealt with all of them: each was adopted, and has ended or waits for a handler. One
        that says that it is sealed is no raw insert, and is left alone."""
        ahead = [{"v": None, "sealed": None}, {"ready": True}, {"state": "running"}]
        return not await stage.db.jobs.count_documents({"_id": {"$in": ids}, "$or": ahead})

    await eventually(looked_at)
    for document, mark in zip(documents, marks, strict=True):
        row.check(not mark.exists(), f"{document} was run")
    row.check(len(stage.targets.strays) == strays, f"connections were made to {stage.targets.strays[strays:]}")
    await stage.db.jobs.delete_many({"_id": {"$in": ids}})
    row.check(stage.service.command.process.poll() is None, "the worker ended")
    row.check("\x1b]0;" not in stage.service.command.output, "an escape sequence of a document reached the output")


@probe("documents", "Damaged documents of other collections break no list either")
async def other_collections(stage: Stage, row: Row) -> None:
    places = {
        "jobs.schedules": "/api/schedules",
        "jobs.calendars": "/api/calendars",
        "jobs.redrives": "/api/redrives",
        "jobs.operations": "/api/operations",
        "jobs.controls": "/api/pauses",
        "jobs.workers": "/api/workers",
        "jobs.secrets": "/api/secrets",
        "jobs.access": "/api/keys",
        "jobs.alert_rules": "/api/alerts",
    }
    for name, path in places.items():
        for document in ({}, {"v": 99}, {"name": 5, "state": [], "kind": "pause"}, {"kind": "breaker", "scope": 7}):
            identity = f"{FOREIGN}-damaged-{stage.dice.randrange(10**9)}"
            await stage.db[name].insert_one({"_id": identity, **document})
            for asked in dict.fromkeys((path, "/api/limits", "/api/breakers", "/api/queues", "/api/session")):
                answer = await stage.client.get(asked, "admin")
                row.check(answer.ok, f"{answer} with {document} in {name}")
            await stage.db[name].delete_one({"_id": identity})
