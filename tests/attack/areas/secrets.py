"""Secrets and credentials: where they may go, who may use them, and where they must not be found."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from bson import CodecOptions, ObjectId
from bson.raw_bson import RawBSONDocument

from attack.asking import Answer
from attack.books import Row, probe
from attack.stage import Stage
from attack.targets import OTHER, OWN
from attack.tenants import BY_ID
from harness.canaries import Canaries
from mainspring import Job

_GOOD = OTHER
"""The host that the secrets of these attacks are for."""


async def put_secret(stage: Stage, name: str, value: str | None = None, **where: Any) -> str:
    """Store a secret for one origin, and perhaps for some queues; returns its value."""
    made = stage.canaries.plant(f"the secret {name}", value)
    origins = [stage.targets.url("", _GOOD)]
    body = {"value": made, "origins": origins, **where}
    answer = await stage.client.ask("PUT", f"/api/secrets/{name}", "admin", json=body)
    assert answer.ok, answer
    return made


def _received(stage: Stage, path: str) -> str:
    return repr([(one.line, one.headers, one.body) for one in stage.targets.at(path)])


@probe("secrets", "A secret is sent to its own origins alone, and used by its own queues alone", fast=True)
async def confined(stage: Stage, row: Row) -> None:
    value = await put_secret(stage, "confined", queues=["billing"])
    stage.targets.clear()
    good = {"endpoint": stage.targets.url("/good", _GOOD), "headers": {"X-Loot": "secret://confined"}}
    answer, job = await stage.hook("operator", queue="billing", **good)
    row.control(job is not None and job.state == "completed" and value in _received(stage, "/good"), answer)
    evil = {"endpoint": stage.targets.url("/loot", OWN), "headers": {"X-Loot": "secret://confined"}}
    await _by_creation(stage, row, evil)
    await _by_other_queues(stage, row, good)
    await _by_change(stage, row, evil)
    await _by_documents(stage, row, evil)
    row.check(
        value not in _received(stage, "/loot"), f"the secret was sent to {OWN}: {_received(stage, '/loot')[:500]}"
    )
    signed = [one for one in stage.targets.at("/loot") if one.header("webhook-signature") is not None]
    row.check(not signed, f"a request to {OWN} was signed")


async def _by_creation(stage: Stage, row: Row, evil: dict[str, Any]) -> None:
    """In a header, alone or in a text, as a signature, in a bulk, in a schedule and by the older route."""
    url = evil["endpoint"]
    for by, queue in (("tenant", "qa"), ("operator", "billing"), ("admin", "billing")):
        for body in (
            {**evil},
            {"endpoint": url, "headers": {"Authorization": "Bearer secret://confined"}},
            {"endpoint": url, "signWith": ["confined"], "body": {"a": 1}},
            {**evil, "redirects": 2},
        ):
            answer, job = await stage.hook(by, queue=queue, **body)
            row.check(answer.refused or (job is not None and job.state == "failed"), answer)
        line = await stage.client.post("/api/jobs/bulk", by, [{**evil, "queue": queue}])
        row.check('"error"' in line.text, line)
        planned = await stage.create(by, queue=queue, schedule="0 0 1 1 *", id=f"{queue}:loot", **evil)
        if planned.ok:
            await stage.client.post(f"/api/schedules/{queue}:loot/trigger", by)
            await stage.client.ask("DELETE", f"/api/schedules/{queue}:loot", by)
        row.check(planned.refused, planned)
    older = {"type": "http", "data": {"url": url, "headers": evil["headers"]}}
    answer = await stage.client.post("/api/v1/create-job", "operator", older)
    row.check(answer.refused, answer)


async def _by_other_queues(stage: Stage, row: Row, good: dict[str, Any]) -> None:
    """To the right origin, by jobs that it is not for."""
    stage.targets.clear()
    for by, queue in (("tenant", "qa"), ("operator", "elsewhere"), ("both", "qa"), ("operator", "http")):
        answer, job = await stage.hook(by, queue=queue, **good)
        row.check(answer.refused or (job is not None and job.state == "failed"), answer)
        row.check(not stage.targets.at("/good"), f"{answer}: the request was sent")


async def _by_change(stage: Stage, row: Row, evil: dict[str, Any]) -> None:
    """By changing a job that waits, and by editing a dead letter before it is run again."""
    waiting = await stage.made("operator", queue="billing", endpoint=stage.targets.url("/wait", OWN), delay="1h")
    answer = await stage.client.ask("PUT", f"/api/jobs/{waiting}", "operator", json={**evil, "delay": "0s"})
    row.check(answer.refused, answer)
    if answer.ok:
        await stage.end(waiting)
    dead = await stage.made("operator", queue="billing", endpoint=stage.targets.url("/status/404", OWN))
    await stage.end(dead)
    edit = {"request": {"url": evil["endpoint"], "method": "POST", "headers": evil["headers"]}}
    redriven = await stage.client.post("/api/dead-letters/retry", "operator", {"ids": [dead], "data": edit})
    row.check(redriven.status < 500, redriven)
    job = await stage.end(dead)
    row.check(job.state == "failed", f"{redriven}: ended as {job.state}")


async def _by_documents(stage: Stage, row: Row, evil: dict[str, Any]) -> None:
    """By a program that writes to the database without asking the service."""
    for request in (
        {"url": evil["endpoint"], "headers": evil["headers"]},
        {"url": evil["endpoint"], "sign_with": ["confined"], "body": "x"},
    ):
        document = {"name": "mainspring:http", "queue": "billing", "data": {"request": request, "target": "x"}}
        found = await stage.db.jobs.insert_one({"_id": ObjectId(), "retry": {"attempts": 1}, **document})
        job = await stage.end(str(found.inserted_id))
        row.check(job.state == "failed", f"{json.dumps(document)} ended as {job.state}")


@probe("secrets", "Names of secrets cannot be guessed by those who may not use them", fast=True)
async def guessing(stage: Stage, row: Row) -> None:
    await put_secret(stage, "guessed", queues=["billing"])
    url = stage.targets.url("/guess", OTHER)
    seen: list[tuple[int, str]] = []
    for name in ("guessed", "nothing"):
        answer, job = await stage.hook("tenant", queue="qa", endpoint=url, headers={"X": f"secret://{name}"})
        told = answer.text if job is None else _error(job)
        seen.append((answer.status, told.replace(name, "NAME")))
    row.check(seen[0] == seen[1], f"{seen[0]} against {seen[1]}")
    errors = []
    for name in ("guessed", "nothing"):
        data = {"request": {"url": url, "headers": {"X": f"secret://{name}"}}, "target": "x"}
        made = await stage.scheduler.schedule("mainspring:http", data, queue="qa", retry=1)
        errors.append(_error(await stage.end(made.id)).replace(name, "NAME"))
    row.check(errors[0] == errors[1] and errors[0], f"a raw job: {errors[0]} against {errors[1]}")
    for by in ("tenant", "tenant-admin", "operator", "viewer", "prefix-admin"):
        answer = await stage.client.get("/api/secrets", by)
        row.check(answer.status == 403, answer)


def _error(job: Job) -> str:
    return "" if job.error is None else job.error.message


@probe("secrets", "A new target gets no credential of the old one", fast=True)
async def retargeted(stage: Stage, row: Row) -> None:
    stage.targets.clear()
    value = Canaries().plant("a credential")
    headers = {"Authorization": f"Bearer {value}", "X-Api-Key": value, "Cookie": f"s={value}"}
    made: dict[str, Any] = {"queue": "qa", "endpoint": stage.targets.url("/first", OTHER), "headers": headers}
    made |= {"data": {"password": value}, "delay": "1h"}
    target = stage.targets.url("/taken", OWN)
    changes: tuple[dict[str, Any], ...] = (
        {"endpoint": target},
        {"endpoint": target, "headers": {"Authorization": "[redacted]"}},
        {"endpoint": target, "body": {"p": "{{data.password}}"}},
        {"body": {"p": "{{data.password}}"}, "endpoint": target, "headers": {}},
        {"endpoint": target, "query": {"p": "{{data.password}}"}},
        {"endpoint": target, "headers": {"X-Given": "{{data.password}}"}},
        {"endpoint": target, "data": {"password": "[redacted]"}, "body": {"p": "{{data.password}}"}},
    )
    for change in changes:
        job = await stage.made("admin", **made)
        shown = await stage.client.get(f"/api/jobs/{job}", "tenant")
        row.control(shown.ok and value not in shown.text, shown)
        answer = await stage.client.ask("PUT", f"/api/jobs/{job}", "tenant", json={**change, "delay": "0s"})
        if answer.ok:
            await stage.end(job)
        else:
            await stage.client.post(f"/api/jobs/{job}/cancel", "admin", {})
        row.check(value not in _received(stage, "/taken"), f"{answer}: {_received(stage, '/taken')[:400]}")
        stage.targets.clear()


@probe("secrets", "A credential that is not shown cannot be searched for either, nor read in a URL", fast=True)
async def oracles(stage: Stage, row: Row) -> None:
    value = Canaries().plant("a searched credential")
    names = ("X-Api-Key", "Cookie", "Authorization", "Ocp-Apim-Subscription-Key", "X-Auth-Token")
    url = stage.targets.url(f"/search?token={value}&api_key={value}&sig={value}", OTHER)
    made = await stage.made("operator", queue="qa", endpoint=url, headers=dict.fromkeys(names, value), delay="1h")
    shown = await stage.client.get(f"/api/jobs/{made}", "viewer")
    row.control(made in shown.text, shown)
    for path in (f"/api/jobs/{made}", f"/api/jobs/{made}/detail", "/api/jobs?limit=20", "/api/jobs/search?limit=20"):
        answer = await stage.client.get(path, "viewer")
        row.check(answer.ok and value not in answer.text, answer)
    audit = await stage.client.get("/api/audit?limit=5", "admin")
    row.check(audit.ok and value not in audit.text, f"{audit.request} tells a credential")
    fields = [*(f"request.headers.{name}" for name in names), "request.url"]
    for field in fields:
        text = quote(url if field == "request.url" else value, safe="")
        right = await stage.client.get(f"/api/jobs/search?data.{field}={text}", "viewer")
        wrong = await stage.client.get(f"/api/jobs/search?data.{field}={text.replace(value, 'zqwrong')}", "viewer")
        row.check(_hits(right) == _hits(wrong), f"{right} against {wrong}")


def _hits(answer: Answer) -> int | str:
    return len(answer.data) if answer.ok else f"{answer.status}"


@probe("secrets", "No secret, key or session is found in the database, in mongod's log or in any output", fast=True)
async def found_nowhere(stage: Stage, row: Row) -> None:
    await put_secret(stage, "echoed")
    endpoint = stage.targets.url("/echo", _GOOD)
    for state in ("completed", "failed"):
        options = {"success": [200] if state == "completed" else [204]}
        answer, job = await stage.hook(
            "operator", endpoint=endpoint, headers={"X-Key": "secret://echoed"}, retryAttempts=0, **options
        )
        row.control(job is not None and job.state == state, answer)
    database = await everything_stored(stage)
    logs = [one.read_bytes() for one in stage.folder.rglob("*.log*")]
    answers = [(await stage.client.get(path, "admin")).text for path in _LISTS]
    shown = Canaries({"a name that is stored": "echoed"})
    row.control(shown.found_in(database), "the search finds what is there")
    for place, contents in (("the database", [database]), ("mongod's log", logs), ("the output", [stage.output])):
        found = stage.canaries.found_in(*contents)
        for canary in stage.canaries.planted:
            row.check(canary not in found, f"{canary} is in {place}")
    for canary in stage.canaries.found_in(*answers):
        row.check(False, f"{canary} is in an answer")


_LISTS = (
    *("/api/jobs?limit=100", "/api/jobs/search?limit=100", "/api/dead-letters", "/api/audit?limit=200", "/api/keys"),
    *("/api/secrets", "/api/schedules", "/api/observability/failures", "/api/workers", "/api/queues"),
)


async def everything_stored(stage: Stage) -> bytes:
    """Every document of the product's database, as it is stored."""
    found = []
    for name in await stage.db.list_collection_names():
        collection = stage.db.get_collection(name, CodecOptions(document_class=RawBSONDocument))
        found += [document.raw async for document in collection.find(hint=BY_ID)]
    return b"\n".join(found)
