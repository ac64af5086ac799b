"""Every route for every caller: one without a key, each role, and a key that reaches another tenant's queue only.

The table says who may call what. A route that is not in it fails the first test, so that none is forgotten.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from api.conftest import Api, serving
from mainspring import AuditRow, Calendar, Cron, Scheduler
from mainspring.api.app import make_app
from mainspring.api.dashboard import SECTIONS
from mainspring.api.jobs.sealed_cursors import SECRET
from mainspring.api.settings import service_settings
from mainspring.client.service_backend import ServiceBackend
from mainspring.model.access.api_keys import ADMIN, OPERATOR, ROLES, VIEWER

Make = Callable[..., Scheduler]
MARK = "foreign"
"""Part of the name of everything that a key of the other tenant must not see."""
FOREIGN = [f"foreign-{one}" for one in ("job", "schedule", "calendar", "queue", "key", "secret", "reason", "value")]


@dataclass(frozen=True)
class Row:
    """What is expected of a route: who may call it, with what, and how a key with a scope is answered."""

    role: str
    scoped: int = 200
    """For what is out of its scope: 200 where lists are filtered, 404 for single things, 403 where all are meant."""
    body: Any = None
    query: str = ""
    changes: bool = True
    """Of other methods than GET: whether it changes anything, which is written down once then."""


TARGET = {"queue": "foreign-queue"}
NEW_TIMES = {"name": "foreign-job", "queue": "foreign-queue", "repeat": {"cron": "0 0 2 1 *"}}
NEW_JOB = {"name": "foreign-new", "queue": "foreign-queue"}
NEW_FLOW = {"name": "foreign-flow", "nodes": [{"name": "one", "job": "foreign-new", "queue": "foreign-queue"}]}
NEW_RULE = {"name": "foreign-new", "kind": "no_worker", "to": [{"type": "email", "to": ["ops@example.com"]}]}
MOVING = {"verb": "move", "filter": {"queue": "foreign-queue"}, "queue": "foreign-other", "reason": "a reason"}
TABLE = {
    "GET /api/secrets": Row(ADMIN, 403),
    "PUT /api/secrets/{name}": Row(ADMIN, 403, {"value": "whsec_something", "origins": ["*"]}),
    "DELETE /api/secrets/{name}": Row(ADMIN, 403),
    "GET /api/keys": Row(ADMIN),
    "POST /api/keys": Row(ADMIN, 403, {"name": "foreign-key"}),
    "POST /api/keys/{key_id}/rotate": Row(ADMIN, 404, {}),
    "DELETE /api/keys/{key_id}": Row(ADMIN, 404),
    "GET /api/session": Row(VIEWER),
    "POST /api/session": Row(VIEWER, 201),
    "DELETE /api/session": Row(VIEWER, 204),
    "GET /api/settings": Row(ADMIN, 403),
    "GET /api/audit": Row(ADMIN, 403),
    "GET /api/audit/verify": Row(ADMIN, 403),
    "GET /api/observability/health": Row(VIEWER),
    "GET /api/observability/stats": Row(VIEWER),
    "GET /api/observability/failures": Row(VIEWER),
    "GET /api/overview": Row(VIEWER),
    "GET /api/stats": Row(VIEWER),
    "GET /api/stats/names": Row(VIEWER),
    "GET /api/events": Row(VIEWER),
    "POST /api/v1/create-job": Row(OPERATOR, 403, {"type": "http", "data": {"url": "https://example.com/"}}),
    "GET /api/v1/jobs": Row(VIEWER),
    "GET /api/v1/job/{id:path}": Row(VIEWER, 404),
    "POST /api/jobs/bulk": Row(OPERATOR, 200, [NEW_JOB]),
    "GET /api/jobs/search": Row(VIEWER),
    "GET /api/jobs/counts": Row(VIEWER),
    "GET /api/jobs/suggestions": Row(VIEWER),
    "GET /api/jobs/export": Row(VIEWER),
    "POST /api/jobs/{job_id:path}/cancel": Row(OPERATOR, 404, {}),
    "POST /api/jobs/{job_id:path}/retry": Row(OPERATOR, 404),
    "POST /api/jobs/{job_id:path}/run": Row(OPERATOR, 404),
    "POST /api/jobs/{job_id:path}/signals/{name}": Row(OPERATOR, 404, {}),
    "GET /api/jobs/{job_id:path}/explain": Row(VIEWER, 404),
    "GET /api/jobs/{job_id:path}/wait": Row(VIEWER, 404, query="?timeout=0s"),
    "GET /api/jobs/{job_id:path}/detail": Row(VIEWER, 404),
    "POST /api/jobs/{job_id:path}/copy": Row(OPERATOR, 404, {}),
    "POST /api/jobs/{job_id:path}/stack": Row(OPERATOR, 404),
    "GET /api/jobs/{job_id:path}/compare": Row(VIEWER, 404),
    "GET /api/jobs/{job_id:path}/related": Row(VIEWER, 404),
    "GET /api/handlers": Row(VIEWER),
    "GET /api/schedules": Row(VIEWER),
    "GET /api/schedules/coming": Row(VIEWER),
    "POST /api/schedules/recent": Row(VIEWER, 200, {"ids": ["x"]}, changes=False),
    "POST /api/schedules/preview": Row(VIEWER, 200, {"schedule": "0 9 * * *"}, changes=False),
    "POST /api/schedules/{schedule_id:path}/pause": Row(OPERATOR, 404, {}),
    "POST /api/schedules/{schedule_id:path}/resume": Row(OPERATOR, 404, {}),
    "POST /api/schedules/{schedule_id:path}/skip": Row(OPERATOR, 404, {}),
    "POST /api/schedules/{schedule_id:path}/trigger": Row(OPERATOR, 404, {}),
    "GET /api/schedules/{schedule_id:path}/upcoming": Row(VIEWER, 404),
    "GET /api/schedules/{schedule_id:path}/ledger": Row(
        VIEWER, 404, query="?start=2026-01-01T00:00:00Z&end=2026-01-02T00:00:00Z"
    ),
    "POST /api/schedules/{schedule_id:path}/backfill": Row(
        OPERATOR, 404, {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    ),
    "GET /api/schedules/{schedule_id:path}": Row(VIEWER, 404),
    "PUT /api/schedules/{schedule_id:path}": Row(OPERATOR, 403, NEW_TIMES),
    "PATCH /api/schedules/{schedule_id:path}": Row(OPERATOR, 404, {"priority": 2}),
    "DELETE /api/schedules/{schedule_id:path}": Row(OPERATOR, 404),
    "GET /api/calendars": Row(VIEWER),
    "GET /api/calendars/{name:path}": Row(VIEWER, 404),
    "PUT /api/calendars/{name:path}": Row(OPERATOR, 422, {"days": ["2030-12-24"]}),
    "DELETE /api/calendars/{name:path}": Row(OPERATOR, 404),
    "GET /api/dead-letters": Row(VIEWER),
    "GET /api/dead-letters/groups": Row(VIEWER),
    "POST /api/dead-letters/retry": Row(OPERATOR, 403, {"everything": True}),
    "POST /api/dead-letters/discard": Row(OPERATOR, 403, {"everything": True}),
    "GET /api/redrives": Row(VIEWER),
    "GET /api/redrives/{redrive_id}": Row(VIEWER, 404),
    "POST /api/redrives/{redrive_id}/cancel": Row(OPERATOR, 404),
    "POST /api/flows": Row(OPERATOR, 403, NEW_FLOW),
    "POST /api/flows/batch": Row(OPERATOR, 403, [{}]),
    "GET /api/flows": Row(VIEWER),
    "GET /api/flows/{flow_id}": Row(VIEWER, 404),
    "GET /api/flows/{flow_id}/timeline": Row(VIEWER, 404),
    "POST /api/flows/{flow_id}/retry": Row(OPERATOR, 404),
    "POST /api/flows/{flow_id}/cancel": Row(OPERATOR, 404, {}),
    "POST /api/operations": Row(OPERATOR, 403, MOVING),
    "GET /api/operations": Row(VIEWER),
    "GET /api/operations/{operation_id}": Row(VIEWER, 404),
    "POST /api/operations/{operation_id}/cancel": Row(OPERATOR, 404),
    "GET /api/pauses": Row(VIEWER),
    "POST /api/pauses": Row(OPERATOR, 404, TARGET),
    "POST /api/pauses/resume": Row(OPERATOR, 404, TARGET),
    "GET /api/limits": Row(VIEWER),
    "PUT /api/limits/{scope}/{target:path}": Row(OPERATOR, 404, {"concurrency": {"limit": 5}}),
    "DELETE /api/limits/{scope}/{target:path}": Row(OPERATOR, 404),
    "GET /api/breakers": Row(VIEWER),
    "POST /api/breakers/{scope}/{target:path}/open": Row(OPERATOR, 404, {}),
    "POST /api/breakers/{scope}/{target:path}/close": Row(OPERATOR, 404, {}),
    "GET /api/alerts": Row(VIEWER),
    "POST /api/alerts": Row(OPERATOR, 403, NEW_RULE),
    "GET /api/alerts/{rule_id}": Row(VIEWER, 404),
    "PATCH /api/alerts/{rule_id}": Row(OPERATOR, 404, {"name": "foreign-new"}),
    "POST /api/alerts/{rule_id}/silence": Row(OPERATOR, 404, {"duration": "1h"}),
    "POST /api/alerts/{rule_id}/unsilence": Row(OPERATOR, 404),
    "POST /api/alerts/{rule_id}/test": Row(OPERATOR, 404, {"timeout": "0s"}),
    "DELETE /api/alerts/{rule_id}": Row(OPERATOR, 404),
    "GET /api/queues": Row(VIEWER),
    "GET /api/queues/{queue:path}/scale": Row(VIEWER, 404),
    "GET /api/queues/{queue:path}": Row(VIEWER, 404),
    "GET /metrics": Row(VIEWER, 403),
    "GET /api/workers": Row(VIEWER, 403),
    "POST /api/workers/{worker_id}/drain": Row(OPERATOR, 403, {}),
    "DELETE /api/workers/{worker_id}/drain": Row(OPERATOR, 403),
    "POST /api/jobs": Row(OPERATOR, 403, NEW_JOB),
    "GET /api/jobs": Row(VIEWER),
    "GET /api/jobs/{id:path}": Row(VIEWER, 404),
    "PUT /api/jobs/{id:path}": Row(OPERATOR, 404, {"priority": 2}),
    "GET /api/jobs/{id:path}/executions": Row(VIEWER, 404),
    "DELETE /api/jobs/{id:path}": Row(OPERATOR, 404),
}
READS = {"GET /api/audit": 1, "GET /api/audit/verify": 0, "GET /api/jobs/export": 1}
"""That the audit log is read is written down as well, once an hour, and so is each export."""
RUNNING = {"POST /api/jobs/{job_id:path}/stack"}
"""Routes for running jobs only."""
OPEN = {
    *("GET /livez", "GET /readyz", "GET /docs", "GET /openapi.json", "/static"),
    *("GET /", "GET /api", "GET /health", "GET /healthz"),
    *(f"GET /{one}{rest}" for one in SECTIONS for rest in ("", "/{rest:path}")),
}
"""What is answered without knowing who asks."""


def routes_in(routes: Iterable[Any]) -> Iterator[str]:
    for route in routes:
        if hasattr(route, "original_router"):
            yield from routes_in(route.original_router.routes)
        elif getattr(route, "methods", None):
            yield from (f"{method} {route.path}" for method in route.methods - {"HEAD"})
        else:
            yield route.path


def test_every_route_of_the_service_is_in_the_table() -> None:
    app = make_app(Scheduler("mongodb://127.0.0.1:1/x"), service_settings())
    assert set(routes_in(app.routes)) == set(TABLE) | OPEN


class World:
    """A service with foreign things, a key for each role, and one for another tenant's queue."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.scheduler = api.scheduler
        self.db = api.scheduler.client.get_default_database()
        self.keys: dict[str, str] = {}
        self.places: dict[str, str] = {}

    async def fill(self) -> None:
        scheduler = self.scheduler
        options: dict[str, Any] = {"queue": "foreign-queue", "delay": 3600}
        job = await scheduler.schedule("foreign-job", {"value": "foreign-value"}, **options)
        schedule = await scheduler.schedule(
            "foreign-job", repeat=Cron("0 0 1 1 *"), schedule_id="foreign-schedule", queue="foreign-queue"
        )
        await scheduler.calendars.put("foreign-calendar", Calendar(days=["2030-12-25"]))
        await scheduler.queues.pause("foreign-queue", reason="foreign-reason")
        redrive = await scheduler.dead_letters.discard(name="foreign-job")
        operation = await scheduler.operations.create("cancel", {"queue": "foreign-queue"}, reason="foreign-reason")
        key = await scheduler.api_keys.create("foreign-key", VIEWER, queues=["foreign-queue"])
        flow = scheduler.flow("foreign-flow", {"x": "foreign-value"})
        flow.add("foreign-job", queue="foreign-queue")
        flow_id = (await flow.start()).id
        to = [{"type": "email", "to": ["ops@example.com"]}]
        rule = await scheduler.alerts.create("foreign-value", "dead_letters", to, queues=["foreign-queue"])
        ids = {
            "flow_id": flow_id,
            "rule_id": rule.id,
            "job_id:path": job.id,
            "id:path": job.id,
            "schedule_id:path": schedule.id,
            "redrive_id": redrive.id,
        }
        self.places = ids | {
            "operation_id": operation.id,
            "key_id": key.key.id,
            "name": "foreign-secret",
            "name:path": "foreign-calendar",
        }
        self.places |= {"scope": "queue", "target:path": "foreign-queue", "queue:path": "foreign-queue"}
        self.running = await self._run(job.id)
        self.places["worker_id"] = "foreign-worker"  # it never looks, so that its drain can be cancelled
        worker = {"_id": "foreign-worker", "host": "foreign-host", "beat_at": scheduler.now() + timedelta(days=36500)}
        await self.db["jobs.workers"].insert_one(worker)
        await ServiceBackend(scheduler).service_secret(SECRET)  # made when a list is first asked for
        for role in ROLES:
            self.keys[role] = (await scheduler.api_keys.create(role, role)).text
        self.keys["scoped"] = (await scheduler.api_keys.create("acme", ADMIN, queues=["acme"])).text

    async def _run(self, job_id: str) -> str:
        """A copy of a job that a worker runs which never looks."""
        document = await self.db.jobs.find_one({"_id": ObjectId(job_id)})
        assert document is not None
        document |= {"_id": ObjectId(), "state": "running", "worker": "foreign-worker", "token": 1}
        document["lease_until"] = self.scheduler.now() + timedelta(days=36500)
        document.pop("ready", None)
        await self.db.jobs.insert_one(document)
        return str(document["_id"])

    def values(self, route: str) -> dict[str, str]:
        """What the parameters of a route are."""
        return self.places | ({"job_id:path": self.running} if route in RUNNING else {})

    async def call(self, route: str, who: str | None) -> tuple[int, str]:
        """The status and, but for the stream of events, the text of the answer."""
        method, _, path = route.partition(" ")
        for name, value in self.values(route).items():
            path = path.replace(f"{{{name}}}", value)
        headers = {} if who is None else {"Authorization": f"Bearer {self.keys[who]}"}
        row = TABLE[route]
        url = self.api.url + path + row.query
        async with self.api.session.request(method, url, json=row.body, headers=headers) as answer:
            return answer.status, "" if path == "/api/events" else await answer.text()

    def unsaid(self, route: str) -> list[str]:
        """What an answer to another tenant must not contain, beside what he has said himself."""
        values = self.values(route).items()
        said = str(TABLE[route].body) + str([value for name, value in values if f"{{{name}}}" in route])
        return [one for one in FOREIGN if one not in said]

    async def hashes(self) -> dict[str, str]:
        """What is in the database, but for the notes of these requests."""
        found: dict[str, str] = (await self.db.command("dbHash"))["collections"]
        return {name: value for name, value in found.items() if not name.startswith(("jobs.access", "jobs.audit"))}

    def is_told(self, route: str, row: AuditRow) -> bool:
        """Whether a row tells which key did what to what: the target is what the route names, or what it has made."""
        key = self.keys[TABLE[route].role].split("_")[1]
        who = row.actor == f"key:{key}" and row.address == "127.0.0.1"
        named = [value for name, value in self.values(route).items() if f"{{{name}}}" in route] or [row.target]
        return who and bool(re.fullmatch(r"[a-z_]+\.[a-z_]+", row.action)) and any(one in row.target for one in named)

    async def rows(self) -> int:
        changes = await self.scheduler.audit.find(limit=1)
        return changes[0].n if changes else 0


@pytest.fixture
async def world(make_scheduler: Make) -> AsyncIterator[World]:
    async with serving(make_scheduler(keys={"k": "A" * 43 + "="}), requests_per_minute=100_000) as api:
        world = World(api)
        await world.fill()
        yield world


async def test_nobody_is_told_anything(world: World) -> None:
    before = await world.hashes()
    answers = {route: await world.call(route, None) for route in TABLE}
    assert {status for status, _ in answers.values()} == {401}
    assert not [route for route, (_, text) in answers.items() if MARK in text]
    assert await world.hashes() == before


@pytest.mark.slow
async def test_less_than_the_role_is_not_enough(world: World) -> None:
    before = await world.hashes()
    wrong = {}
    for route, row in TABLE.items():
        for role in ROLES[: ROLES.index(row.role)]:
            status, text = await world.call(route, role)
            if status != 403 or MARK in text:
                wrong[route, role] = status, text
    assert wrong == {}
    assert await world.hashes() == before


@pytest.mark.slow
async def test_the_role_is_enough_and_each_change_is_written_down_once(world: World) -> None:
    wrong = {}
    for route, row in TABLE.items():
        before = await world.rows()
        status, text = await world.call(route, row.role)
        noted = (
            await world.scheduler.audit.find(limit=await world.rows() - before) if await world.rows() > before else []
        )
        expected = READS.get(route, 0) if route.startswith("GET") or not row.changes else 1
        if not 200 <= status < 300 or len(noted) != expected or not all(world.is_told(route, one) for one in noted):
            wrong[route] = status, noted, text
    assert wrong == {}


async def test_a_key_with_a_scope_neither_sees_nor_changes_what_is_foreign(world: World) -> None:
    before = await world.hashes()
    wrong = {}
    for route, row in TABLE.items():
        status, text = await world.call(route, "scoped")
        if status != row.scoped or any(one in text for one in world.unsaid(route)):
            wrong[route] = status, text
    assert wrong == {}
    assert await world.hashes() == before


@pytest.mark.slow
async def test_reading_changes_nothing(world: World) -> None:
    before, rows = await world.hashes(), await world.rows()
    for route in (one for one in TABLE if one.startswith("GET")):
        await world.call(route, ADMIN)
        assert await world.hashes() == before, route
    assert await world.rows() == rows + sum(READS.values())
