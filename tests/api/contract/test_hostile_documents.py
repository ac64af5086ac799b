"""Malformed documents in every collection: each affects itself alone, and is shown with its id and its error.

The routes are those of the service, so that a new one is included by itself. `tests/unit/store/test_hostile_jobs.py`
tries every value in every field of a job; here each field has one of the values at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from pydantic import ValidationError
from pymongo import AsyncMongoClient

from api.access.test_matrix import OPEN, routes_in
from api.conftest import Api, serving
from harness.fuzzing import FULL
from harness.hostile import VALUES, Document, raw, spread
from harness.inside import inside
from harness.looking import Database
from harness.waiting import eventually
from mainspring import Calendar, Cron, Every, JobContext, Scheduler
from mainspring.api.app import make_app
from mainspring.api.settings import service_settings
from mainspring.api.wire.jobs import JobOut
from mainspring.engine.alerts.evaluation import evaluate
from mainspring.model.views.search import JobFilter

Make = Callable[..., Scheduler]
TURNS = range(len(VALUES) if FULL else 1)
# A request of this one would wait for events.
STREAMS = ("/api/events",)
STORED = (
    "jobs",
    "schedules",
    "ledger",
    "calendars",
    "controls",
    "gates",
    "workers",
    "redrives",
    "operations",
    "access",
    "alert_rules",
)
COLLECTIONS = (*STORED, "secrets", "audit", "stats", "keys", "locks", "alerts", "audit.head", "replies")
# Where each document of a collection is named, also one that cannot be read.
LISTED_AT = {
    "jobs": ("/api/jobs", "/api/v1/jobs", "/api/jobs/search"),
    "schedules": ("/api/schedules",),
    "calendars": ("/api/calendars",),
    "workers": ("/api/workers",),
    "redrives": ("/api/redrives",),
    "operations": ("/api/operations",),
    "access": ("/api/keys",),
    "secrets": ("/api/secrets",),
    "alert_rules": ("/api/alerts",),
    "audit": ("/api/audit",),
}
# Lists that have no next page show as many as they can.
WHOLE = ("/api/observability/failures", "/api/redrives")
SAMPLED = 1 if FULL else 10
"""Each so many-th malformed document is asked for by its id, too."""


@cache
def get_routes() -> list[str]:
    app = make_app(Scheduler("mongodb://127.0.0.1:1/x"), service_settings())
    found = [route.partition(" ")[2] for route in routes_in(app.routes) if route.startswith("GET ")]
    return sorted(path for path in found if path not in STREAMS and f"GET {path}" not in OPEN)


class World:
    """A service with one good thing of each kind, and malformed copies of it."""

    def __init__(self, api: Api, db: Database) -> None:
        self.api = api
        self.db = db
        self.places: dict[str, list[str]] = {}
        self.good: dict[str, list[Document]] = {}
        self.faults: list[str] = []

    async def fill(self) -> None:
        scheduler = self.api.scheduler

        @scheduler.job("good", concurrency=5, encrypt=["card"])
        async def good(ctx: JobContext, card: str) -> dict[str, int]:
            ctx.log("a line")
            await ctx.step("first", lambda: 1)
            return {"n": 1}

        @scheduler.job("bad", retry=1)
        async def bad() -> None:
            raise ValueError("it is broken")

        await scheduler.start()
        done = await scheduler.schedule("good", {"card": "4711"}, tags=["t"], dedupe_key="k", priority=3)
        dead = await scheduler.schedule("bad")
        await scheduler.wait(done.id, timeout=60)
        await scheduler.wait(dead.id, timeout=60)
        for name in ("workers", "gates"):
            await self._keep(name)
        await scheduler.stop()
        waiting = await scheduler.schedule(
            "mainspring:http", {"request": {"url": "https://example.com/", "headers": {"A": "b"}}}, delay=3600
        )
        schedule = await scheduler.schedule("bad", repeat=Cron("0 0 1 1 *"), schedule_id="good-schedule")
        await scheduler.schedules.skip_next(schedule.id, "a reason")
        await scheduler.schedule("bad", repeat=Every("1h"), schedule_id="paused-schedule", paused=True)
        await scheduler.calendars.put("good-calendar", Calendar(days=["2030-12-25"]))
        await scheduler.queues.pause("good-queue", reason="a reason", actor="x")
        await scheduler.limits.set(name="good", concurrency=4, rate="10/minute")
        await scheduler.limits.open_breaker(name="good", reason="a reason")
        redrive = await scheduler.dead_letters.discard(name="none")
        filter: JobFilter = {"name": "none", "since": datetime(2026, 1, 1, tzinfo=UTC), "data": {"a": 1}}
        operation = await scheduler.operations.create("set_priority", filter, priority=3, reason="x", actor="x")
        named = await scheduler.operations.create("move", ids=["none"], queue="other", reason="x", start_after=0)
        await scheduler.secrets.put("good-secret", "whsec_something", origins=["*"])
        to = [{"type": "webhook", "url": "https://example.com/", "headers": {"A": "b"}}]
        rule = await scheduler.alerts.create("good-rule", "breaker_open", to, group_window=0)
        await evaluate(await inside(scheduler).store())
        rule = await scheduler.alerts.silence(rule.id, "1h", reason="a reason")
        key = await scheduler.api_keys.create("good-key", queues=["good-queue"], prefixes=["good"])
        admin = await scheduler.api_keys.create("admin", "admin")
        self.api = self.api.with_key(admin.text)
        created = await self.api.post("/api/pauses", {"queue": "q"}, headers={"Idempotency-Key": "once"})
        assert created.status == 201
        for name in COLLECTIONS:
            await self._keep(name)
        jobs = [done.id, dead.id, waiting.id]
        self.places = {"id": [*jobs, schedule.id], "job_id": jobs, "schedule_id": [schedule.id, "paused-schedule"]}
        self.places["queue"] = ["good-queue", "q"]
        self.places |= {
            "operation_id": [operation.id, named.id],
            "redrive_id": [redrive.id],
            "rule_id": [rule.id],
            "key_id": [key.key.id],
            "name": ["good-calendar"],
        }

    async def _keep(self, name: str) -> None:
        if not self.good.get(name):
            self.good[name] = await self.collection(name).find({}, hint="_id_").to_list(20)

    def collection(self, name: str) -> Any:
        return self.db["jobs" if name == "jobs" else f"jobs.{name}"]

    async def insert(self, name: str, turn: int) -> dict[str, str]:
        """Insert malformed copies of the good documents of a collection; returns what is wrong with each, by its id."""
        inserted = {}
        for number, document in enumerate(self.good[name]):
            for place, (why, copy) in enumerate(spread(document, turn)):
                copy["_id"] = _another_id(copy["_id"], number, place)
                if name == "workers" and isinstance(copy.get("beat_at"), datetime):
                    copy["beat_at"] = datetime.now(UTC)
                try:
                    await self.collection(name).insert_one(raw(copy))
                except Exception as refused:  # two fields of one index cannot both be lists
                    assert "parallel arrays" in str(refused), (why, refused)
                else:
                    inserted[str(copy["_id"])] = why
        return inserted

    async def answers(self, malformed: dict[str, str]) -> dict[str, str]:
        """What all routes answer, for the good things and some malformed ones: all pages of each."""
        found = {}
        for route in get_routes():
            for path, why in self._paths(route, malformed):
                found[path] = await self._pages(path, why)
        return found

    def _paths(self, route: str, malformed: dict[str, str]) -> list[tuple[str, str]]:
        if "{" not in route:
            return [(route, "")]
        begin, _, rest = route.partition("{")
        parameter, _, end = rest.partition("}")
        name = parameter.partition(":")[0]
        some = list(malformed.items())[len(route) % SAMPLED :: SAMPLED]
        values = [*((one, "") for one in self.places["job_id" if name == "flow_id" else name]), *some]
        return [(f"{begin}{value}{end}", why) for value, why in values]

    async def _pages(self, path: str, why: str) -> str:
        text, cursor = "", None
        query = "?timeout=0s" if path.endswith("/wait") else "?limit=200" if path in WHOLE else "?"
        name = "before" if path == "/api/audit" else "cursor"
        while True:
            answer = await self.api.get(path + query + ("" if cursor is None else f"&{name}={cursor}"))
            unwell = answer.status == 503 and "/health" in path
            if answer.status >= 500 and not unwell:
                self.faults.append(f"{answer.status} {path} {why}")
            text += answer.text
            cursor = answer.body.get("next") if isinstance(answer.body, dict) else None
            if not cursor:
                return text


def _another_id(identity: Any, number: int, place: int) -> Any:
    if isinstance(identity, ObjectId):
        return ObjectId()
    if isinstance(identity, dict):
        return {**identity, "name": f"malformed{number}x{place}"}
    return 1000 + number * 100 + place if isinstance(identity, int) else f"{identity}-malformed{number}x{place}"


@pytest.fixture
async def world(make_scheduler: Make, uri: str, side_client: AsyncMongoClient[Document]) -> AsyncIterator[World]:
    db = side_client[uri.rpartition("/")[2].partition("?")[0]]
    async with serving(make_scheduler(keys={"k": "A" * 43 + "="}), requests_per_minute=1_000_000) as api:
        world = World(api, db)
        await world.fill()
        yield world


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.slow
async def test_malformed_documents_harm_no_answer_and_are_shown_by_their_ids(world: World, turn: int) -> None:
    before = await world.answers({})
    marks = [one for values in world.places.values() for one in values]
    shown = {path: [mark for mark in marks if mark in text] for path, text in before.items()}
    shown["/api/dead-letters/groups"] = [one["fingerprint"] for one in world.good["jobs"] if "fingerprint" in one]
    inserted = {name: await world.insert(name, turn) for name in COLLECTIONS}
    after = await world.answers({one: why for some in inserted.values() for one, why in some.items()})
    assert world.faults == []
    for path, good in shown.items():
        assert [mark for mark in good if mark not in after[path]] == [], (path, "does not show the good ones")
    for name, paths in LISTED_AT.items():
        for path in paths:
            assert {why for one, why in inserted[name].items() if one not in after[path]} == set(), path


@pytest.mark.slow
async def test_jobs_with_ids_of_other_types_harm_no_list(world: World) -> None:
    document = next(one for one in world.good["jobs"] if one["state"] == "failed")
    ids: list[Any] = [7, Int64(2**60), 1.5, True, {"a": 1}, b"x", Binary(b"y", 128), Decimal128("1"), "", "a/b", "ü\n"]
    await world.db.jobs.insert_many([{**document, "_id": identity} for identity in ids])
    answers = await world.answers({})
    assert world.faults == []
    assert all(one in answers["/api/jobs"] for one in world.places["id"])


@pytest.mark.slow
async def test_a_malformed_job_is_shown_with_its_state_and_error_and_can_be_deleted(world: World) -> None:
    inserted = await world.insert("jobs", 3)
    for one, why in inserted.items():
        shown = await world.api.get(f"/api/jobs/{one}")
        assert shown.status == 200 and shown.data["_id"] == one and "state" in shown.data, (why, shown.text)
        deleted = await world.api.delete(f"/api/jobs/{one}")
        assert deleted.status == 200, (why, deleted.text)


async def test_what_nobody_has_foreseen_is_logged_by_its_place_and_not_by_its_values(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("quotes CANARY-VALUE of a document")

    monkeypatch.setattr(api.scheduler, "search", fails)
    answer = await api.get("/api/jobs/search?data.customer=CANARY-QUERY")
    assert answer.status == 500 and "CANARY" not in answer.text
    number = answer.body["detail"].rpartition(" ")[2].rstrip(".")
    (record,) = [one for one in caplog.records if number in one.getMessage()]
    assert record.getMessage().startswith("GET /api/jobs/search failed with ValueError")
    assert "in fails" in (record.exc_text or "")
    assert "CANARY-VALUE" not in caplog.text.replace('raise ValueError("quotes CANARY-VALUE of a document")', "")
    assert "CANARY-QUERY" not in caplog.text


def test_no_model_that_goes_out_quotes_its_input_in_errors() -> None:
    with pytest.raises(ValidationError) as caught:
        JobOut.model_validate({"id": "j", "name": "CANARY", "priority": "CANARY"})
    assert "CANARY" not in str(caught.value)


@pytest.mark.slow
async def test_a_worker_runs_jobs_and_fires_schedules_beside_malformed_documents(
    world: World, make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    for name in COLLECTIONS:
        await world.insert(name, 5)
    worker = make_scheduler(keys={"k": "A" * 43 + "="})
    ran: list[str] = []

    @worker.job("ticking")
    async def ticking() -> None:
        ran.append("ticking")

    await worker.schedule("ticking", repeat=Every("1s"), schedule_id="ticking")
    await worker.start()
    job = await worker.schedule("ticking")
    assert (await worker.wait(job.id, timeout=120)).state == "completed"

    async def fired() -> bool:
        return len(ran) > 2

    await eventually(fired)
    broken = [record.getMessage() for record in caplog.records if record.exc_info and record.name == "mainspring"]
    assert broken == []
