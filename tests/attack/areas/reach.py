"""Every route as every caller, on things that belong to another tenant: what is told, and what is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attack.asking import Answer
from attack.books import Row, probe
from attack.routes import Route, routes
from attack.stage import Stage
from attack.tenants import MISSING, Foreign, foreign_in, print_of, settle

STRANGERS = (None, "wrong", "expired", "revoked")
"""Callers that are not let in at all."""
TENANTS = ("tenant", "tenant-viewer", "tenant-admin", "prefix", "prefix-admin", "both")
"""Callers that do not reach the foreign tenant's queue."""
_ADDRESS = "127.0.0.8"
"""Where callers without a right key come from, so that a limit on wrong keys concerns no other row."""


async def all_routes(stage: Stage, fields: Mapping[str, Any]) -> list[Route]:
    document = (await stage.client.get("/openapi.json")).body
    found = list(routes(document, fields))
    assert len(found) > 50, found
    return found


async def call(stage: Stage, route: Route, by: str | None, things: Mapping[str, str], **options: Any) -> Answer:
    path = route.at(things)
    if route.path.endswith("/wait"):
        path += "?timeout=0s"
    if route.body is None:
        return await stage.client.ask(route.method, path, by, **options)
    if route.media != "application/json":
        item = {"name": "plain", "queue": things["target"]}
        return await stage.client.ask(route.method, path, by, json=[item], **options)
    return await stage.client.ask(route.method, path, by, json=route.body, **options)


@probe("reach", "A caller without a right key is told nothing and changes nothing, on any route", fast=True)
async def strangers(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    stage.client.keys["wrong"] = f"ms_{stage.key_id('admin')}_{'Z' * 43}"
    before = await print_of(stage, foreign)
    for route in stage.some(await all_routes(stage, foreign.in_fields()), 8):
        for by in STRANGERS:
            answer = await call(stage, route, by, foreign.in_paths(), source=_ADDRESS)
            told = foreign_in(answer.text, answer.request, foreign)
            row.check(answer.status in (401, 429) and not told, f"{answer} {told}")
    row.check(await print_of(stage, foreign) == before, "things of the foreign tenant were changed")


@probe("reach", "A role does not do what a higher one may", fast=True)
async def roles(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    before = await print_of(stage, foreign)
    read_only = {"/api/schedules/preview", "/api/schedules/recent", "/api/session"}
    found = await all_routes(stage, foreign.in_fields())
    for route in stage.some([one for one in found if one.method != "GET" and one.path not in read_only], 8):
        answer = await call(stage, route, "viewer", foreign.in_paths())
        row.check(answer.status == 403, answer)
    for route in (one for one in found if one.path.startswith(("/api/keys", "/api/secrets", "/api/audit"))):
        for by in ("viewer", "operator", "tenant"):
            answer = await call(stage, route, by, foreign.in_paths())
            row.check(answer.status == 403, answer)
    row.check(await print_of(stage, foreign) == before, "a lower role has changed something")


@probe("reach", "A tenant neither sees nor changes what another tenant has, on any route", fast=True)
async def tenants(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    await _control(stage, row, foreign)
    found = await all_routes(stage, foreign.in_fields())
    before = await print_of(stage, foreign)
    for route in stage.some(found, 10):
        for by in TENANTS:
            for things in _variants(route, foreign):
                answer = await call(stage, route, by, things)
                told = foreign_in(answer.text, answer.request, foreign)
                row.check(answer.status not in (0, 500) and answer.status < 503 and not told, f"{answer} told {told}")
        after = await print_of(stage, foreign)
        row.check(after == before, f"{route} by {', '.join(TENANTS)} has changed {_changed(before, after)}")
        before = after


def _variants(route: Route, foreign: Foreign) -> list[dict[str, str]]:
    """The things to ask a route for: jobs in several states, where it is about a job or a schedule."""
    things = foreign.in_paths()
    if "id" in route.names:
        return [things | {"id": one} for one in (foreign.job, foreign.dead, foreign.schedule)]
    if "job_id" in route.names:
        return [things | {"job_id": one} for one in (foreign.job, foreign.dead, foreign.done)]
    if "scope" in route.names:
        return [things, things | {"scope": "name", "target": "zqforeign.plain"}]
    return [things]


async def _control(stage: Stage, row: Row, foreign: Foreign) -> None:
    """The same is seen by those who may see it."""
    for by in ("admin", "operator", "viewer", "foreign"):
        answer = await stage.client.get(f"/api/jobs/{foreign.job}/detail", by)
        row.control(answer.ok and foreign.job in answer.text, answer)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(one for one in before.keys() | after.keys() if before.get(one) != after.get(one))


@probe("reach", "What belongs to another tenant is answered word by word as if it were not there", fast=True)
async def texts(stage: Stage, row: Row) -> None:
    foreign = await settle(stage)
    theirs = foreign.in_paths()
    none = theirs | dict.fromkeys(("id", "job_id", "flow_id"), MISSING["job"]) | {"schedule_id": MISSING["schedule"]}
    none |= {
        "redrive_id": MISSING["redrive"],
        "operation_id": MISSING["operation"],
        "rule_id": MISSING["rule"],
        "key_id": MISSING["key"],
        "name": "nothing-thing",
    }
    none |= {"target": "nothing-queue", "queue": "nothing-queue", "worker_id": "nothing-worker"}
    found = [one for one in await all_routes(stage, {"reason": "x"}) if set(one.names) & (none.keys() - {"scope"})]
    for route in stage.some(found, 6):
        for by in ("tenant", "tenant-admin", "prefix-admin", "both"):
            one, other = await call(stage, route, by, theirs), await call(stage, route, by, none)
            same = (one.status, _neutral(one, theirs)) == (other.status, _neutral(other, none))
            row.check(same, f"{one} against {other}")
    for path in ("/api/dead-letters/retry", "/api/dead-letters/discard"):
        one = await stage.client.post(path, "tenant", {"ids": [foreign.dead]})
        other = await stage.client.post(path, "tenant", {"ids": [MISSING["job"]]})
        same = _outcome(one, foreign.dead) == _outcome(other, MISSING["job"])
        row.check(same, f"{one} against {other}")


def _outcome(answer: Answer, job: str) -> tuple[int, Any]:
    """What a redrive tells, without what differs each time."""
    data = answer.data or answer.body
    told = {name: value for name, value in data.items() if not name.endswith("At") and name != "id"}
    return answer.status, str(told).replace(job, "ID")


def _neutral(answer: Answer, things: Mapping[str, str]) -> str:
    """The text of an answer without what the request has named itself."""
    text = answer.text
    for thing in sorted(things.values(), key=len, reverse=True):
        text = text.replace(thing, "THING")
    return text
