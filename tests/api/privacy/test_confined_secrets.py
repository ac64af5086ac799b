"""Secrets go where they are meant to go, for the jobs that they are meant for, whatever is asked of the service and
whatever is written to the database."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from api.conftest import Api
from api.jobs.test_bulk import ndjson, send
from api.jobs.test_executions import KEYS, ended, running
from harness.api_keys import keyed
from harness.inside import inside
from harness.sinks import Sink, reply
from mainspring import Job, Scheduler
from mainspring.model.jobs.reserved_names import HTTP

Make = Callable[..., Scheduler]
CANARY = "whsec_" + "Q0FOQVJZ" * 5
LATER = "2099-01-01T00:00:00Z"
IN_HEADER: dict[str, Any] = {"headers": {"X-Loot": "secret://canary"}}
SIGNED: dict[str, Any] = {"signWith": ["canary"], "body": {"pay": "me"}}
LOOT = [pytest.param(IN_HEADER, id="in a header"), pytest.param(SIGNED, id="as a signature")]


@dataclass
class Stage:
    """A service and its worker, a server that the secret `canary` is for, one that it is not for, and a tenant."""

    api: Api
    good: Sink
    evil: Sink
    admin: Api = field(init=False)
    tenant: Api = field(init=False)

    @property
    def scheduler(self) -> Scheduler:
        return self.api.scheduler

    async def put(self, name: str = "canary", **options: Any) -> None:
        await self.scheduler.secrets.put(name, CANARY, **{"origins": [self.good.url], **options})

    async def raw(self, request: dict[str, Any], **fields: Any) -> Job:
        """A job that another program writes to the database."""
        jobs = (await inside(self.scheduler).store()).connection.jobs
        made = {"name": HTTP, "queue": "qa", "data": {"request": request}, **fields}
        await jobs.insert_one(made)
        return await ended(self.api, str(made["_id"]))

    def nothing_arrived(self) -> None:
        assert self.evil.connections == 0
        assert not any("canary" in str(one.headers).lower() for one in self.good.received)


@pytest.fixture
async def stage(make_scheduler: Make) -> AsyncIterator[Stage]:
    async with contextlib.AsyncExitStack() as stack:
        good, evil = await stack.enter_async_context(Sink()), await stack.enter_async_context(Sink())
        stage = Stage(await stack.enter_async_context(running(make_scheduler(keys=KEYS))), good, evil)
        stage.admin = await keyed(stage.api)
        stage.tenant = await keyed(stage.api, "operator", queues=["qa"])
        yield stage


def hook(url: str, **fields: Any) -> dict[str, Any]:
    return {"endpoint": f"{url}/collect", "queue": "qa", **fields}


# -- what the service refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loot", LOOT)
async def test_a_tenant_cannot_have_a_secret_of_others_sent_or_sign_with_it(stage: Stage, loot: dict[str, Any]) -> None:
    await stage.put()
    await stage.put("other", queues=["qb"])
    missing = json.loads(json.dumps(loot).replace("canary", "nosuch"))
    others = json.loads(json.dumps(loot).replace("canary", "other"))
    for url in (stage.evil.url, stage.good.url):
        told = []
        for fields in (loot, missing, others):
            refused = await stage.tenant.post("/api/jobs", hook(url, **fields))
            assert refused.status == 403, refused.text
            told.append(refused.text.replace("nosuch", "canary").replace("other", "canary"))
        assert len(set(told)) == 1, "that a secret of others is there is not told"
    for repeated in ({"every": 3_600_000}, {"schedule": "0 0 * * *", "id": "mine"}):
        assert (await stage.tenant.post("/api/jobs", hook(stage.good.url, **loot, **repeated))).status == 403
    nightly = hook(stage.good.url, **loot, schedule="0 0 * * *")
    assert (await stage.tenant.put("/api/schedules/mine", nightly)).status == 403
    assert (await stage.admin.get("/api/jobs")).data == []
    stage.nothing_arrived()


async def test_a_bulk_refuses_the_lines_that_use_secrets_of_others_and_stores_the_rest(stage: Stage) -> None:
    await stage.put()
    items = [hook(stage.evil.url, **loot, runAt=LATER) for loot in (IN_HEADER, SIGNED, {})]
    items.append({"name": "x", "queue": "qa"})
    lines = await send(stage.tenant, ndjson(*items))
    assert [line.get("error", {}).get("status") for line in lines] == [403, 403, None, None]


@pytest.mark.parametrize("loot", LOOT)
async def test_no_change_gets_a_tenant_at_a_secret_of_others(stage: Stage, loot: dict[str, Any]) -> None:
    await stage.put()
    own = (await stage.tenant.post("/api/jobs", hook(stage.evil.url, runAt=LATER))).data["jobId"]
    made = (await stage.admin.post("/api/jobs", hook(stage.good.url, **loot, runAt=LATER))).data["jobId"]
    fired = (await stage.admin.post("/api/jobs", hook(stage.good.url, **loot, schedule="0 0 1 1 *"))).data["jobId"]
    for job_id, change in (
        (own, loot),
        *((one, {"endpoint": f"{stage.evil.url}/x"}) for one in (made, fired)),
        *((one, {"body": "to be signed"}) for one in (made, fired)),
        *((one, {"data": {"to": "be signed"}}) for one in (made, fired)),
        (fired, {"endpoint": f"{stage.evil.url}/x", "enabled": False}),
    ):
        assert (await stage.tenant.put(f"/api/jobs/{job_id}", {**change, "delay": None})).status == 403, change
    assert (await stage.tenant.get(f"/api/jobs/{fired}")).data["enabled"], "nothing was changed"
    assert (await stage.tenant.put(f"/api/jobs/{made}", {"priority": 1})).data["priority"] == 1
    stage.nothing_arrived()


@pytest.mark.parametrize("part", ["headers", "sign_with", "data"])
async def test_a_redrive_with_an_edit_gets_a_tenant_at_no_secret_of_others(stage: Stage, part: str) -> None:
    await stage.put()
    stage.good.answers = [reply(404)]
    dead = (await stage.admin.post("/api/jobs", hook(stage.good.url, **SIGNED))).data["jobId"]
    assert (await ended(stage.api, dead)).state == "failed"
    stage.good.received.clear()
    loot = {"headers": {"X-Loot": "secret://canary"}} if part == "headers" else {"sign_with": ["canary"]}
    edit: dict[str, Any] = {"data": {"x": "chosen"}} if part == "data" else {"request": {"url": stage.evil.url, **loot}}
    edited = {"ids": [dead], "data": edit}
    assert (await stage.tenant.post("/api/dead-letters/retry", edited)).status == 403
    for chosen in ({"filter": {"queue": "qa"}}, {"filter": {"queue": "qa", "name": HTTP}}):
        refused = await stage.tenant.post("/api/dead-letters/retry", {**chosen, "data": edit})
        assert refused.status in (403, 422)
    assert (await stage.scheduler.get_job(dead)).state == "failed"
    assert stage.good.received == []
    stage.nothing_arrived()


@pytest.mark.slow
async def test_a_dead_webhook_is_edited_by_its_id_and_goes_to_its_new_target(stage: Stage) -> None:
    stage.good.answers = [reply(404)]
    dead = (await stage.tenant.post("/api/jobs", hook(stage.good.url, data={"x": 1}))).data["jobId"]
    await ended(stage.api, dead)
    edit = {"request": {"url": f"{stage.evil.url}/new", "body": {"x": "{{data.x}}"}}, "data": {"x": 2}}
    assert (await stage.tenant.post("/api/dead-letters/retry", {"ids": [dead], "data": edit})).status == 202
    job = await ended(stage.api, dead)
    assert (job.state, job.data["target"]) == ("completed", stage.evil.url)
    assert [one.body for one in stage.evil.received] == [b'{"x":2}']


async def test_a_key_that_reaches_everything_is_told_why_and_cannot_send_a_secret_elsewhere_either(
    stage: Stage,
) -> None:
    await stage.put(queues=["qa"])
    for fields, status, words in (
        (hook(stage.evil.url, **IN_HEADER), 403, "none of its origins"),
        (hook(stage.good.url.replace("http:", "https:"), **IN_HEADER), 403, "none of its origins"),
        (hook(stage.good.url, **SIGNED, queue="qb"), 403, "for other queues"),
        (hook(stage.good.url, headers={"X": "secret://nosuch"}), 422, "There is no secret 'nosuch'"),
    ):
        refused = await stage.admin.post("/api/jobs", fields)
        assert (refused.status, words in refused.text) == (status, True), refused.text
    made = (await stage.admin.post("/api/jobs", hook(stage.good.url, **IN_HEADER, runAt=LATER))).data["jobId"]
    assert (await stage.admin.put(f"/api/jobs/{made}", {"queue": "qb"})).status == 403
    stage.nothing_arrived()


async def test_a_tenant_uses_the_secrets_that_are_for_its_queue_at_their_origins(stage: Stage) -> None:
    await stage.put(queues=["qa"], origins=[stage.good.url, "https://*.example.com"])
    job = (await stage.tenant.post("/api/jobs", hook(stage.good.url, **IN_HEADER))).data["jobId"]
    assert (await ended(stage.api, job)).state == "completed"
    assert stage.good.received[0].header("X-Loot") == CANARY
    refused = await stage.tenant.post("/api/jobs", hook(stage.evil.url, **IN_HEADER))
    assert refused.status == 403 and "none of its origins" in refused.text
    assert stage.evil.connections == 0


# -- what the worker refuses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loot", [{"headers": {"X-Loot": "secret://canary"}}, {"sign_with": ["canary"]}])
async def test_a_raw_document_sends_no_secret_to_where_it_is_not_meant_to_go(
    stage: Stage, loot: dict[str, Any]
) -> None:
    await stage.put()
    job = await stage.raw({"url": f"{stage.evil.url}/{{{{job.id}}}}", **loot})
    assert (job.state, len(job.attempts)) == ("failed", 1)
    assert "may not be sent to" in str(job.error) and CANARY not in str(job)
    stage.nothing_arrived()


async def test_a_raw_document_of_another_queue_uses_no_secret_and_does_not_learn_that_it_is_there(stage: Stage) -> None:
    await stage.put(queues=["qb"])
    texts = set()
    for name in ("canary", "nosuch"):
        job = await stage.raw({"url": stage.good.url, "headers": {"X-Loot": f"secret://{name}"}})
        assert (job.state, len(job.attempts)) == ("failed", 1)
        texts.add(str(job.error).replace("nosuch", "canary"))
    assert len(texts) == 1
    assert stage.good.connections == 0


@pytest.mark.parametrize("loot", LOOT)
async def test_a_redirect_takes_no_request_with_a_secret_to_another_origin(stage: Stage, loot: dict[str, Any]) -> None:
    await stage.put()
    stage.good.answers = [reply(307, Location=f"{stage.evil.url}/collect")]
    headers = {**loot.get("headers", {}), "Accept-Language": "secret://canary"}
    asked = hook(stage.good.url, **{**loot, "headers": headers}, redirects=3)
    job = await ended(stage.api, (await stage.admin.post("/api/jobs", asked)).data["jobId"])
    assert (job.state, len(job.attempts)) == ("failed", 1)
    assert "none of the origins of the secret 'canary'" in str(job.error)
    assert stage.evil.connections == 0


@pytest.mark.parametrize("fields", [{}, {"origins": []}, {"origins": "*"}, {"origins": ["*"], "queues": "qa"}])
async def test_a_stored_secret_that_does_not_say_where_it_may_go_goes_nowhere(
    stage: Stage, fields: dict[str, Any]
) -> None:
    await stage.put()
    secrets = (await inside(stage.scheduler).store()).secrets._secrets
    await secrets.update_one({"_id": "canary"}, [{"$unset": ["origins", "queues"]}, {"$set": {"x": 1, **fields}}])
    refused = await stage.admin.post("/api/jobs", hook(stage.good.url, **IN_HEADER))
    assert refused.status == 422 and "store it again, with origins" in refused.text
    assert (await stage.tenant.post("/api/jobs", hook(stage.good.url, **IN_HEADER))).status == 403
    job = await stage.raw({"url": stage.good.url, "headers": {"X-Loot": "secret://canary"}})
    assert job.state == "failed" and stage.good.connections == 0
    assert await stage.scheduler.secrets.value("canary") == CANARY, "code of a worker reads it"


@pytest.mark.slow
async def test_a_raw_document_whose_templates_grow_beyond_the_bounds_fails_and_sends_nothing(stage: Stage) -> None:
    data = {"x": "y" * 10_000}
    for part in ({"body": "{{data.x}}" * 4000}, {"query": {"q": "{{data.x}}"}}, {"headers": {"X": "{{data.x}}"}}):
        request = {"url": stage.good.url, **part}
        refused = await stage.tenant.post("/api/jobs", hook(stage.good.url, **part, data=data))
        assert refused.status == 422 and "when it is filled in" in refused.text
        job = await stage.raw(request, data={"request": request, "data": data})
        assert (job.state, len(job.attempts)) == ("failed", 1) and "when it is filled in" in str(job.error)
    assert stage.good.connections == 0


# -- putting and using -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origins",
    [[], ["*", "https://a.example"], ["a.example"], ["https://a.example/path"], ["https://*.com"], ["ftp://a.example"],
     ["https://*.0.0.1"], ["https://a.example:0"], ["https://me@a.example"], ["https://[::1"], ["https://*"]],
)  # fmt: skip
async def test_origins_that_are_none_are_refused(stage: Stage, origins: list[str]) -> None:
    refused = await stage.admin.put("/api/secrets/x", {"value": CANARY, "origins": origins})
    assert refused.status == 422 and CANARY not in refused.text
    assert (await stage.admin.put("/api/secrets/x", {"value": CANARY})).status == 422, "they are required"


@pytest.mark.slow
async def test_the_uses_of_secrets_are_in_the_audit_log_with_their_jobs_and_without_values(stage: Stage) -> None:
    await stage.put(queues=["qa"])
    made = [
        (await stage.tenant.post("/api/jobs", hook(stage.good.url, **loot))).data["jobId"]
        for loot in (IN_HEADER, SIGNED)
    ]
    for one in made:
        await ended(stage.api, one)
    await stage.scheduler.secrets.value("canary")
    worker = stage.scheduler.workers.own_id
    await inside(stage.scheduler).core.secret_uses.flush()
    rows = [row for row in await stage.scheduler.audit.find(target="canary", limit=200) if row.action == "secret.use"]
    assert {row.actor for row in rows} == {f"worker:{worker}"} and CANARY not in str(rows)
    told = [row.value_after() for row in rows]
    sent = [one for one in told if "jobs" in one]
    assert sorted(job for one in sent for job in one["jobs"]) == sorted(made)
    assert {(one["origin"], one["queue"]) for one in sent} == {(stage.good.url, "qa")}
    assert [one for one in told if "jobs" not in one] == [{"by": "code", "times": 1}]
