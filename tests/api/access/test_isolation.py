"""Every route for every role and kind of scope, with what belongs to others: none of it is told, and none changed.

The routes are the app's own. A new one is walked like all others: where it takes a parameter or a body of a kind that
is not known here, the tests fail and say so. Each request is sent twice: with what another party has, and with what
nobody has. The answers must be the same but for the ids that the request itself has named.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import aiohttp
import pytest
from bson import ObjectId

from api.access.test_matrix import OPEN
from api.conftest import Api, serving
from api.views.test_events import reading
from harness.pausing import resume
from harness.tenants import PAST, STATES, YEARLY, Party, documents_with, fill, party
from mainspring import Cron, Scheduler
from mainspring.api.app import make_app
from mainspring.api.dependencies import taken_by
from mainspring.api.settings import service_settings
from mainspring.api.specification import specification
from mainspring.model.access.api_keys import ADMIN, OPERATOR, ROLES, VIEWER

pytestmark = pytest.mark.slow
Make = Callable[..., Scheduler]
STREAM = "GET /api/events"

# -- the scopes --------------------------------------------------------------------------------------------------------

OWN = {"queue": "own-queue", "name": "own.work"}
SCOPES: dict[str, dict[str, list[str]]] = {
    "queues": {"queues": ["own-queue"]},
    "prefixes": {"prefixes": ["own."]},
    "both": {"queues": ["own-queue"], "prefixes": ["own."]},
}
FOREIGN = {
    "queues": ("zzforeign", "zzhalfqueue"),
    "prefixes": ("zzforeign", "zzhalfname"),
    "both": ("zzforeign", "zzhalfqueue", "zzhalfname"),
}
"""By kind of scope: the parties that are out of its reach. The halves have the own name, or the own queue."""

# -- what requests are made of -----------------------------------------------------------------------------------------

JOBS = ("job", "failed", "run")
PATHS = {
    "job_id": JOBS,
    "id": (*JOBS, "schedule"),
    "flow_id": ("flow", "declared"),
    "schedule_id": ("schedule",),
    "redrive_id": ("redrive",),
    "operation_id": ("operation",),
    "rule_id": ("rule",),
    "key_id": ("key",),
    "queue": ("queue",),
    "worker_id": ("worker",),
}
QUERIES: dict[str, str | None] = {
    "name": "{name}",
    "queue": "{queue}",
    "tag": "{tag}",
    "scheduleId": "{schedule}",
    "parentId": "{job}",
    "flowId": "{flow}",
    "dedupeKey": "{dedupe}",
    "worker": "{text}",
    "id": "{job}",
    "key": "data:{text}",
    "actor": "key:{key}",
    "target": "{job}",
    **dict.fromkeys(("fingerprint", "error", "text", "label"), "{text}"),
    # These name nothing that anybody has.
    **dict.fromkeys(("state", "kind", "page", "limit", "cursor", "since", "until", "start", "end", "step", "count")),
    **dict.fromkeys(("order", "heaviest", "latest", "action", "drain", "slots")),
    **dict.fromkeys(("after", "timeout", "before", "first", "last", "knownN", "knownHash", "made")),
    **dict.fromkeys(("runSince", "runUntil", "finishedSince", "finishedUntil", "format", "node", "timezone")),
}
JOB = {"name": "{name}", "queue": "{queue}"}
MINE = {"name": "{own_name}", "queue": "{own_queue}", "delay": "1h"}
WINDOW = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
TARGETS: list[Any] = [{"queue": "{queue}"}, {"name": "{name}"}]
LETTERS: list[Any] = [{"ids": ["{failed}"]}, {"filter": JOB}, {"everything": True}]
TIMES = {"name": "{own_name}", "queue": "{own_queue}", "schedule": YEARLY}
EXCEPT = {"repeat": {"cron": YEARLY, "calendars": ["{calendar}"]}}
SECRET = {"endpoint": "https://example.com/", "queue": "{own_queue}", "headers": {"X-Token": "secret://{secret}"}}
HOOK = {"type": "webhook", "url": "https://example.com/", "headers": {"X-Token": "secret://{secret}"}}
MAIL = {"type": "email", "to": ["ops@example.com"]}
RULE = {"name": "{text}", "kind": "dead_letters", "queues": ["{queue}"], "queue": "{queue}", "to": [MAIL]}
CREATIONS: list[Any] = [
    {**JOB, "delay": "1h"},
    {**TIMES, "id": "{schedule}"},
    {**MINE, "dedupeKey": "{dedupe}"},
    {"name": "{own_name}", "queue": "{own_queue}", **EXCEPT},
    {"name": "{own_name}", "queue": "{own_queue}", "repeat": {"any": [EXCEPT["repeat"]]}},
    SECRET,
]
FILTERS: list[Any] = [
    JOB,
    {"queue": "{queue}"},
    {"tag": "{tag}"},
    {"scheduleId": "{schedule}"},
    {"parentId": "{job}"},
    {"flowId": "{flow}"},
    {"dedupeKey": "{dedupe}"},
    {"error": "{text}"},
    {"fingerprint": "{text}"},
    {"label": "{text}"},
    {"data": {"data": "{text}"}},
]
OWN_NODE = {"job": "{own_name}", "queue": "{own_queue}"}
FLOWS: list[Any] = [
    {"name": "a", "delay": "1h", "nodes": [{"job": "{name}", "queue": "{queue}"}]},
    {"name": "a", "delay": "1h", "nodes": [OWN_NODE, {"name": "b", "job": "{name}", "queue": "{queue}"}]},
    {"name": "a", "delay": "1h", "queue": "{queue}", "nodes": [OWN_NODE]},
    {"name": "a", "delay": "1h", "nodes": [OWN_NODE], "dedupeKey": "{dedupe}"},
    {"name": "a", "delay": "1h", "nodes": [{**SECRET, "name": "hook"}]},
    {"name": "a", "schedule": YEARLY, "nodes": [OWN_NODE], "id": "{schedule}"},
    {"name": "a", "schedule": YEARLY, "nodes": [OWN_NODE, {"name": "b", "job": "{name}", "queue": "{queue}"}]},
    {"name": "a", "nodes": [OWN_NODE], **EXCEPT},
]
BATCHES: list[Any] = [
    [{"queue": "{queue}"}],
    [{"queue": "{own_queue}", "onDone": {"job": "{name}", "queue": "{queue}"}}],
    [{"queue": "{own_queue}", "onDone": SECRET}],
    *([{"queue": "{own_queue}"}, one] for one in CREATIONS),
]
OPERATIONS: list[Any] = [
    {"verb": "move", "filter": {"queue": "{own_queue}"}, "queue": "{queue}", "reason": "why"},
    *({"verb": "delete", "filter": filter, "dryRun": True} for filter in FILTERS),
    *({"verb": "cancel", "filter": filter, "reason": "why"} for filter in FILTERS),
    {"verb": "cancel", "ids": ["{job}", "{failed}"], "reason": "why"},
    {"verb": "retry", "ids": ["{failed}"], "dryRun": True},
]
BODIES: dict[str, list[Any]] = {
    "POST /api/operations": OPERATIONS,
    "POST /api/flows": FLOWS,
    "POST /api/flows/batch": BATCHES,
    "POST /api/jobs": CREATIONS,
    "POST /api/jobs/bulk": [[one] for one in CREATIONS],
    "POST /api/jobs/{job_id}/copy": [{}, {"queue": "{queue}"}, {"dedupeKey": "{dedupe}", "delay": "1h"}],
    "PUT /api/jobs/{id}": [{"priority": 2}, {"queue": "{queue}"}, {**EXCEPT}],
    "POST /api/v1/create-job": [{"type": "{name}", "data": {}}],
    "POST /api/schedules/recent": [{"ids": ["{schedule}"]}],
    "PATCH /api/schedules/{schedule_id}": [{"priority": 2}, {"queue": "{queue}"}, {**EXCEPT}],
    "POST /api/schedules/preview": [EXCEPT, {"schedule": YEARLY, "id": "{schedule}"}],
    "POST /api/schedules/{schedule_id}/backfill": [WINDOW, {**WINDOW, "preview": True}],
    "PUT /api/schedules/{schedule_id}": [{**JOB, "schedule": YEARLY}, TIMES, {**TIMES, **EXCEPT, "schedule": None}],
    "PUT /api/calendars/{name}": [{"days": ["2031-06-06"]}],
    "POST /api/dead-letters/retry": LETTERS,
    "POST /api/dead-letters/discard": LETTERS,
    "POST /api/pauses": TARGETS,
    "POST /api/pauses/resume": TARGETS,
    "PUT /api/limits/{scope}/{target}": [{"concurrency": 5}],
    "POST /api/breakers/{scope}/{target}/open": [{}, {"queue": "{queue}"}],
    "POST /api/breakers/{scope}/{target}/close": [{}, {"queue": "{queue}"}],
    "POST /api/keys": [{"name": "{text}", "queues": ["{queue}"], "prefixes": ["{name}"]}],
    "POST /api/alerts": [RULE, {**RULE, "to": [HOOK]}],
    "PATCH /api/alerts/{rule_id}": [{"name": "{text}"}, {"queues": ["{queue}"]}, {"queue": "{queue}"}, {"to": [HOOK]}],
    "POST /api/alerts/{rule_id}/silence": [{"duration": "1h"}],
    "POST /api/alerts/{rule_id}/test": [{"timeout": "0s"}],
    "PUT /api/secrets/{name}": [{"value": "whsec_something", "origins": ["*"]}],
}
# Routes that make jobs.
MAKING = ("POST /api/jobs", "POST /api/jobs/bulk", "POST /api/flows", "POST /api/flows/batch")
# Where a key with a scope of queues is refused with what is its own, and why.
REFUSED = {
    "POST /api/v1/create-job": "it names no queue, so that the job would be in another",
    "POST /api/redrives/{redrive_id}/cancel": "a redrive is its own only if it has begun it",
    "GET /api/redrives/{redrive_id}": "the same",
    "GET /api/v1/job/{id}": "a schedule is no job",
    "GET /api/calendars/{name}": "those of the party stand outside of the key's namespace",
    "DELETE /api/calendars/{name}": "the same",
    "PUT /api/calendars/{name}": "the same",
}


@dataclass(frozen=True)
class Request:
    """A request whose places are still to be filled in."""

    route: str
    path: str
    body: Any = None
    """As JSON; None where there is none."""

    def to(self, target: Party) -> tuple[str, str, str | None, set[str]]:
        """The method, the path, the body, and the places that it names."""
        places = {**target.places, "own_queue": OWN["queue"], "own_name": OWN["name"]}
        template = self.path if self.body is None else f"{self.path}\n{self.body}"
        said = {places[kind] for kind in re.findall(r"\{(\w+)\}", template)}
        method = self.route.partition(" ")[0]
        return method, _filled(self.path, places), None if self.body is None else _filled(self.body, places), said


def _filled(text: str, places: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: places[found[1]], text)


def routes_in(routes: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The routes that need a key, as the app has them."""
    for route in routes:
        if hasattr(route, "original_router"):
            yield from routes_in(route.original_router.routes)
        elif getattr(route, "methods", None):
            for method in route.methods - {"HEAD"}:
                if f"{method} {route.path}" not in OPEN:
                    yield f"{method} {route.path.replace(':path}', '}')}", route


def requests_of(route: str, known: Any, operation: dict[str, Any]) -> list[Request]:
    """A route's requests: one for each kind of thing that its path, its query and its body may name."""
    path = route.partition(" ")[2]
    paths = [
        _variant(path, values) for values in product(*(_values(path, one) for one in re.findall(r"\{(\w+)\}", path)))
    ]
    body = operation.get("requestBody")
    assert not (body or {}).get("required") or route in BODIES, f"say what bodies {route} may have"
    bodies: list[str | None] = [json.dumps(one) for one in BODIES.get(route, [])]
    bodies = bodies or ["{}" if body else None]
    queries = ["?timeout=0s"] if path.endswith("/wait") else _queries(route, known)
    return [Request(route, f"{one}{query}", given) for one in paths for query in queries for given in bodies]


def _values(path: str, parameter: str) -> tuple[str, ...]:
    """What a parameter of a path may be, as places."""
    if parameter == "name":
        return ("{secret}",) if path.startswith("/api/secrets") else ("{calendar}",)
    if parameter in ("scope", "target"):
        return ("queue", "name") if parameter == "scope" else ("{scope}",)
    assert parameter in PATHS, f"say what {parameter} of {path} may be"
    return tuple(f"{{{kind}}}" for kind in PATHS[parameter])


def _variant(path: str, values: tuple[str, ...]) -> str:
    for name, value in zip(re.findall(r"\{(\w+)\}", path), values, strict=True):
        path = path.replace(f"{{{name}}}", f"{{{values[0]}}}" if name == "target" else value, 1)
    return path


def _queries(route: str, known: Any) -> list[str]:
    names, prefixes = taken_by(known)
    assert names <= QUERIES.keys(), f"say what {sorted(names - QUERIES.keys())} of {route} may be"
    given = [f"?{name}={QUERIES[name]}" for name in sorted(names) if QUERIES[name] is not None]
    return ["", *given, *(f"?{prefix}data={{text}}" for prefix in prefixes)]


@cache
def walk() -> list[Request]:
    """All requests of all routes, but for the stream of events."""
    app = make_app(Scheduler("mongodb://127.0.0.1:1/x"), service_settings())
    paths = specification(app)["paths"]
    found: list[Request] = []
    for route, known in routes_in(app.routes):
        method, _, path = route.partition(" ")
        if route != STREAM:
            found += requests_of(route, known, paths[path][method.lower()])
    return found


def first_of_each() -> list[Request]:
    """One request of each route."""
    return list({one.route: one for one in reversed(walk())}.values())


# -- the world ---------------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A service with several parties, and a key of every role for one kind of scope."""

    api: Api
    session: aiohttp.ClientSession
    kind: str
    parties: dict[str, Party]
    keys: dict[str, Api] = field(default_factory=dict)
    operator: Party = field(default_factory=lambda: party("zzoperator"))

    @property
    def scheduler(self) -> Scheduler:
        return self.api.scheduler

    @property
    def foreign(self) -> list[Party]:
        return [self.parties[word] for word in FOREIGN[self.kind]]

    @property
    def tries(self) -> list[tuple[str, Party, list[Request]]]:
        """Which role asks for which party's things with which requests: the one that may do most for all of the first
        party's and some of each other's, the others for some of the first party's."""
        first, *halves = self.foreign
        asked = [(ADMIN, first, walk()), *((ADMIN, one, first_of_each()) for one in halves)]
        return asked + [(role, first, first_of_each()) for role in (VIEWER, OPERATOR)]

    @property
    def marks(self) -> set[str]:
        return self.operator.marks.union(*(one.marks for one in self.foreign))

    async def begin(self) -> None:
        for one in self.parties.values():
            await fill(self.scheduler, one)
        admin = await self.scheduler.api_keys.create("zzoperator-key", ADMIN)
        self.operator.ids["key"] = admin.key.id
        await self._operate(self.api.with_key(admin.text))
        await self._entangle()
        for role in ROLES:
            made = await self.scheduler.api_keys.create("own-key", role, **SCOPES[self.kind], actor=self.actor)  # type: ignore[arg-type]
            self.keys[role] = self.api.with_key(made.text)
            await self.call(role, Request("GET /api/jobs", "/api/jobs"), self.parties["own"])

    async def _operate(self, admin: Api) -> None:
        """What an operator does to the own party's things, with a reason that is not for it."""
        why = {"reason": "zzoperator-reason"}
        for target in ({"queue": OWN["queue"]}, {"name": OWN["name"]}):
            await admin.post("/api/pauses", target | why)
        for path in ("limits/queue/own-queue", "limits/name/own.work"):
            await admin.put(f"/api/{path}", {"concurrency": 1} | why)
        for path in ("breakers/queue/own-queue/open", "breakers/name/own.work/open", "schedules/own-schedule/pause"):
            await admin.post(f"/api/{path}", why)
        await admin.post("/api/schedules/own-schedule/skip", why)

    @property
    def actor(self) -> str:
        return f"key:{self.operator.ids['key']}"

    async def _entangle(self) -> None:
        """Let the own party's things refer to others: to workers, to parents, and to runs from before."""
        jobs, own = self.scheduler.client.get_default_database()["jobs"], self.parties["own"].ids
        stranger = {"worker": "zzoperator-worker", "parent_id": self.foreign[0].ids["job"]}
        for kind in (*STATES, "job"):
            await jobs.update_one({"_id": ObjectId(own[kind])}, {"$set": stranger})
        await jobs.update_one({"_id": ObjectId(own["failed"])}, {"$set": {"attempts.0.worker": "zzoperator-worker"}})
        await self._entangle_flows(jobs, own)
        for one in self.foreign:
            run = {"schedule_id": "own-schedule", "scheduled_for": PAST}
            await jobs.update_one({"_id": ObjectId(one.ids["completed"])}, {"$set": run})

    async def _entangle_flows(self, jobs: Any, own: dict[str, str]) -> None:
        """Let the own party's flows have members of others, and the own jobs belong to flows of others."""
        other = self.foreign[0]
        flow = self.scheduler.flow("own-flow", queue=OWN["queue"], delay=3600)
        theirs = flow.add(other.name, {"data": "zzforeign-text"}, queue=other.queue, name="zzforeign-node")
        flow.add(OWN["name"], queue=OWN["queue"], name="own-node", after=theirs)
        own["declared"] = (await flow.start()).id
        mixed = self.scheduler.flow("own-flow", queue=OWN["queue"])
        mixed.add(other.name, {"data": "zzforeign-text"}, queue=other.queue, name="zzforeign-node")
        await self.scheduler.schedule(mixed, repeat=Cron(YEARLY), schedule_id="own-mixed")
        error = {"type": "Cancelled", "message": f"Job {other.ids['job']}, which it depends on, is failed."}
        cause = {"flow": other.ids["flow"], "node": "a", "because": other.ids["job"], "error": error}
        await jobs.update_one({"_id": ObjectId(own["cancelled"])}, {"$set": cause})
        for one in self.foreign:
            member = {"flow": own["flow"], "node": f"{one.word}-node"}
            await jobs.update_one({"_id": ObjectId(one.ids["completed"])}, {"$set": member})
        nodes = [
            {"_id": f"{own['declared']}.{name}", "flow": own["declared"], "node": name, "state": "cancelled"}
            for name in ("own-node", "zzforeign-node")
        ]
        mine, foreign = {**OWN, **cause, **nodes[0]}, {"name": other.name, "queue": other.queue, **nodes[1]}
        await jobs.insert_many([{"v": 1, "finished_at": PAST, "error": error, **one} for one in (mine, foreign)])

    async def forget(self, request: Request, *answers: str) -> None:
        """Delete the own jobs that a request has made, so that it does not tell in the next ones."""
        if request.route == "POST /api/operations":
            made = re.findall(r'"id":"([0-9a-f]{24})"', " ".join(answers))
            await self.scheduler.client.get_default_database()["jobs.operations"].delete_many({"_id": {"$in": made}})
        if request.route in MAKING:
            for job_id in set(re.findall(r'"(?:jobId|flowId|data":{"id)":"([0-9a-f]{24})"', " ".join(answers))):
                await self.scheduler.delete(job_id)

    async def call(self, role: str, request: Request, target: Party) -> tuple[int, str]:
        method, path, body, _ = request.to(target)
        headers = {**self.keys[role].headers, "Content-Type": "application/json"}
        url = self.api.url + path
        async with self.session.request(method, url, data=body, headers=headers) as answer:
            return answer.status, await answer.text()


@pytest.fixture(params=SCOPES)
async def world(make_scheduler: Make, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    scheduler = make_scheduler(keys={"k": "A" * 43 + "="})
    parties = [
        party("own", **OWN),
        party("zzforeign"),
        party("zzhalfqueue", name=OWN["name"]),
        party("zzhalfname", queue=OWN["queue"]),
    ]
    # A request that is refused before its body is read ends its connection: none is used twice.
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        serving(scheduler, requests_per_minute=1_000_000) as api,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        world = World(api, session, request.param, {one.word: one for one in parties})
        await world.begin()
        yield world


def told(text: str, said: Iterable[str], marks: Iterable[str]) -> list[str]:
    """The marks in an answer, without what the request has said itself. What looks sealed is looked into."""
    for one in sorted(said, key=len, reverse=True):
        text = text.replace(one, "")
    inside = [_opened(one) for one in re.findall(r"[A-Za-z0-9_-]{40,}", text)]
    return [mark for mark in marks if mark in text or any(mark.encode() in one for one in inside)]


def _opened(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def alike(text: str, places: dict[str, str]) -> str:
    """An answer without what may differ: the places that were named, ids and instants of what was made just now."""
    for kind, value in sorted(places.items(), key=lambda place: len(place[1]), reverse=True):
        text = text.replace(value, f"<{kind}>")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-][\d:]+)", "<at>", text)
    text = re.sub(r'"next":"[^"]+"', '"next":"<next>"', text)
    text = re.sub(r'"(perMinute|drainMs)":[0-9.]+', r'"\1":<number>', text)  # these change while time goes by
    text = re.sub(r"\b\d+ (second|minute|hour|day)s?\b", "<length>", text)
    return re.sub(r"\b([0-9a-f]{24}|[0-9a-f]{64})\b", "<id>", text)


# -- the tests ---------------------------------------------------------------------------------------------------------


async def test_what_is_foreign_is_answered_as_what_is_missing_and_nothing_is_told_or_changed(world: World) -> None:
    before = await documents_with(world.scheduler, world.marks)
    wrong: dict[Any, Any] = {}
    for role, target, requests in world.tries:
        nobody = target.missing()
        for request in requests:
            status, text = await world.call(role, request, target)
            if status == 403 and "needs the role" in text:
                continue
            expected = await world.call(role, request, nobody)
            await world.forget(request, text, expected[1])
            same = (status, alike(text, target.places)) == (expected[0], alike(expected[1], nobody.places))
            leaks = told(text, request.to(target)[3], world.marks)
            if not same or leaks or status in (401, 429) or status >= 500:
                wrong[role, target.word, request] = (status, text, leaks, *expected)
    assert not wrong, "\n".join(f"{case}: {answer}" for case, answer in wrong.items())
    assert changed(before, await documents_with(world.scheduler, world.marks)) == {}


def changed(before: Any, after: Any) -> dict[Any, Any]:
    """What has happened to documents of others. A job of one's own may have a dedupe key that reads like another's."""
    own = {key for key, text in after.items() if key not in before and key[0] in ("jobs", "jobs.keys", "jobs.audit")}
    assert not [key for key in own if key[0] == "jobs" and "'name': 'own.work'" not in after[key]]
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys() - own
        if before.get(key) != after.get(key)
    }


async def test_what_is_ones_own_is_answered_without_a_trace_of_others(world: World) -> None:
    before = await documents_with(world.scheduler, world.marks - world.operator.marks)
    wrong, refused = {}, {}
    for role in ROLES:
        for request in walk() if role == ADMIN else first_of_each():
            reads = request.route.startswith("GET")
            if not reads and role != ADMIN:
                continue
            target = world.parties["own"] if reads else await fresh(world, request)
            status, text = await world.call(role, request, target)
            leaks = told(text, (), world.marks)
            if leaks or status in (401, 429) or status >= 500:
                wrong[role, request] = status, text, leaks
            if role == ADMIN and status in (403, 404):
                refused[request.route] = text
    assert not wrong, "\n".join(f"{case}: {answer}" for case, answer in wrong.items())
    assert changed(before, await documents_with(world.scheduler, world.marks - world.operator.marks)) == {}
    if world.kind == "queues":
        odd = {
            route: text for route, text in refused.items() if route not in REFUSED and "a key without one" not in text
        }
        assert odd.keys() <= ABOUT_NAMES, odd


ABOUT_NAMES = {
    "POST /api/alerts",
    "PATCH /api/alerts/{rule_id}",
    "PUT /api/limits/{scope}/{target}",
    "DELETE /api/limits/{scope}/{target}",
    "POST /api/breakers/{scope}/{target}/open",
    "POST /api/breakers/{scope}/{target}/close",
    "POST /api/pauses",
    "POST /api/pauses/resume",
    "POST /api/flows",
    "POST /api/flows/batch",
    "POST /api/jobs",
    "POST /api/schedules/preview",
    "PUT /api/jobs/{id}",
    "PUT /api/schedules/{schedule_id}",
    "PATCH /api/schedules/{schedule_id}",
    "POST /api/dead-letters/retry",
    "POST /api/dead-letters/discard",
}
"""Routes of which a key of queues may use some forms only: not those for a name everywhere, or a calendar of others, or
a secret that is for other names."""


async def fresh(world: World, request: Request) -> Party:
    """The own party with things that nothing was done to yet, as far as a request needs them."""
    scheduler, target = world.scheduler, party("own", **OWN)
    needed = set(re.findall(r"\{(\w+)\}", f"{request.path} {request.body}"))
    target.ids.update(world.parties["own"].ids)
    for kind in needed & {*JOBS, "flow", "declared", "schedule", "key", "rule"}:
        if kind == "rule":
            scope: Any = {"queues": [OWN["queue"]], "queue": OWN["queue"], "enabled": False}
            target.ids[kind] = (await scheduler.alerts.create("own", "dead_letters", [MAIL], **scope)).id
        elif kind in ("flow", "declared"):
            flow = scheduler.flow("own-flow", delay=3600)
            flow.add(OWN["name"], queue=OWN["queue"])
            target.ids[kind] = (await flow.start()).id
        elif kind == "schedule":
            target.ids[kind] = (await scheduler.schedule(OWN["name"], repeat={"cron": YEARLY}, queue=OWN["queue"])).id
        elif kind == "key":
            reply = await world.keys[ADMIN].post("/api/keys", {"name": "own", "role": VIEWER, **SCOPES["both"]})
            target.ids[kind] = reply.data["id"]
        else:
            target.ids[kind] = (await scheduler.schedule(OWN["name"], queue=OWN["queue"], delay=3600)).id
    return target


async def test_what_cannot_be_understood_is_refused_without_a_trace_of_others(world: World) -> None:
    wrong = {}
    for request in first_of_each():
        body = '{"unknwon": 1, "name": 5, "queue": {"$ne": 1}}'
        odd = Request(request.route, f"{request.path.partition('?')[0]}?unknwon=1", body)
        status, text = await world.call(OPERATOR, odd, world.parties["own"])
        if told(text, (), world.marks) or status >= 500 or status < 400:
            wrong[request.route] = status, text
    assert wrong == {}


async def test_the_stream_of_events_tells_of_ones_own_alone(world: World) -> None:
    async with reading(world.keys[VIEWER]) as client:
        for one in (*world.foreign, world.parties["own"]):
            job = await world.scheduler.schedule(one.name, {"data": one.word}, queue=one.queue)
            await world.scheduler.cancel(job.id)
            if one.word != "own":
                await world.scheduler.schedules.pause(f"{one.word}-schedule", "once more")
                await world.scheduler.schedules.delete(f"{one.word}-schedule")
                for target in ({"queue": one.queue}, {"name": one.name}):
                    if one.word in next(iter(target.values())):
                        await resume(world.scheduler, **target)
        await client.until(2)
    text = "\n".join(f"{event.type} {event.id} {json.dumps(event.data)}" for event in client.events)
    assert told(f"{text} {client.last_id}", (), world.marks) == []
    assert {event.data["id"] for event in client.events if event.type == "job"} == {job.id}


def test_all_routes_are_walked() -> None:
    app = make_app(Scheduler("mongodb://127.0.0.1:1/x"), service_settings())
    assert {one.route for one in walk()} == {route for route, _ in routes_in(app.routes)} - {STREAM}
