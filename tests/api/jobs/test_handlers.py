"""The handlers of live workers over HTTP, and the check of data by their schemas where the service has none of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from pydantic import BaseModel

from api.conftest import Api, serving
from harness.api_keys import actions, keyed
from harness.waiting import eventually
from mainspring import Scheduler

Make = Callable[..., Scheduler]


class Address(BaseModel):
    city: str
    zip: int


@pytest.fixture
async def api(make_scheduler: Make) -> AsyncIterator[Api]:
    """A service without handlers, beside a worker that has some."""
    worker = make_scheduler()

    @worker.job("shop.charge", queue="billing", priority=3)
    def charge(amount: int, to: Address, note: str = "") -> None:
        """Charge a card.

        With care.
        """

    @worker.job("shop.later", version=2, upgrade={1: lambda data: {**data, "n": 1}})
    def later(n: int) -> None: ...

    @worker.job("shop.any")
    def anything(**data: object) -> None: ...

    await worker.start()
    async with serving(make_scheduler()) as one:
        yield one


async def test_handlers_of_live_workers_are_listed_with_their_schemas(api: Api) -> None:
    reply = await api.get("/api/handlers")
    assert [one["name"] for one in reply.data] == ["shop.any", "shop.charge", "shop.later"]
    charge = reply.data[1]
    assert (charge["description"], charge["queue"], charge["priority"]) == ("Charge a card.", "billing", 3)
    assert (charge["workers"], charge["version"], charge["queues"]) == (1, 1, None)
    assert charge["dataSchema"]["required"] == ["amount", "to"]
    assert charge["dataSchema"]["$defs"]["Address"]["properties"]["zip"]["type"] == "integer"
    assert reply.data[2]["versions"] == [2] and reply.body["complete"] is True


async def test_one_handler_is_found_by_its_name_and_a_dead_worker_has_none(api: Api, make_scheduler: Make) -> None:
    (one,) = (await api.get("/api/handlers?name=shop.charge")).data
    assert one["dataSchema"]["properties"]["note"]["default"] == ""
    assert (await api.get("/api/handlers?name=shop.charg")).data == []
    (found,) = await api.scheduler.workers.handlers("shop.any")
    assert found.schema is not None and found.schema["additionalProperties"] is True


async def test_a_key_with_a_scope_sees_the_handlers_of_its_scope_only(api: Api) -> None:
    queue = await keyed(api, "viewer", queues=["billing"])
    assert [one["name"] for one in (await queue.get("/api/handlers")).data] == ["shop.charge"]
    assert (await queue.get("/api/handlers?name=shop.any")).data == []
    prefix = await keyed(api, "viewer", prefixes=["other."])
    assert (await prefix.get("/api/handlers")).data == []


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"amount": "much", "to": {"city": "x", "zip": 1}}, "data.amount"),
        ({"amount": 5, "to": {"city": "x"}}, "data.to.zip"),
        ({"amount": 5}, "data.to"),
        ({"amount": 5, "to": {"city": "x", "zip": 1}, "amonut": 5}, "data.amonut"),
    ],
)
async def test_data_that_does_not_fit_is_refused_with_the_field(api: Api, data: object, field: str) -> None:
    reply = await api.post("/api/jobs", {"name": "shop.charge", "data": data})
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, field), reply.text
    assert "much" not in reply.text
    (line,) = (await api.call("POST", "/api/jobs/bulk", json=[{"name": "shop.charge", "data": data}])).text.splitlines()
    assert field in line
    assert [job async for job in api.scheduler.jobs()] == []


async def test_data_that_fits_is_stored_and_other_names_are_not_checked(api: Api) -> None:
    good = {"amount": "5", "to": {"city": "x", "zip": 1}}
    made = (await api.post("/api/jobs", {"name": "shop.charge", "data": good, "delay": "1h"})).data
    assert (made["queue"], made["priority"]) == ("billing", 3)
    refused = await api.put(f"/api/jobs/{made['jobId']}", {"data": {"amount": 1}})
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, "data.to")
    changes = {"data": {**good, "amount": 7}, "priority": 2, "queue": "other", "runAt": "2031-01-01T00:00:00Z"}
    changed = (await api.put(f"/api/jobs/{made['jobId']}", changes)).data
    assert (changed["data"]["amount"], changed["priority"], changed["queue"]) == (7, 2, "other")
    assert changed["runAt"] == "2031-01-01T00:00:00.000Z"
    assert (await api.post("/api/jobs", {"name": "unknown", "data": {"x": 1}})).status == 201


async def test_data_of_another_version_is_left_to_the_upgrade(api: Api) -> None:
    old = (await api.post("/api/jobs", {"name": "shop.later", "data": {"old": True}, "delay": "1h"})).data
    assert (await api.get(f"/api/jobs/{old['jobId']}/detail")).data["dataVersion"] == 1
    refused = await api.post("/api/jobs", {"name": "shop.later", "data": {"old": True}, "dataVersion": 2})
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, "data.n")
    new = (await api.post("/api/jobs", {"name": "shop.later", "data": {"n": 3}, "dataVersion": 2, "delay": "1h"})).data
    assert (await api.get(f"/api/jobs/{new['jobId']}/detail")).data["dataVersion"] == 2
    mail = await api.post("/api/jobs", {"endpoint": "https://example.com/", "dataVersion": 2})
    assert (mail.status, mail.body["errors"][0]["field"]) == (422, "dataVersion")


# -- copies ------------------------------------------------------------------------------------------------------------


async def test_a_copy_has_the_data_and_options_of_the_job_and_its_changes(api: Api) -> None:
    data = {"amount": 5, "to": {"city": "x", "zip": 1}}
    before = await api.scheduler.schedule(
        "shop.charge", data, priority=7, tags=["a"], timeout=30, retry=4, delay=600, dedupe_key="k"
    )
    copy = await api.post(f"/api/jobs/{before.id}/copy", {"data": {**data, "amount": 6}, "delay": "2h"})
    assert copy.status == 201 and copy.data["id"] != before.id
    job = await api.scheduler.get_job(copy.data["id"])
    assert (job.data["amount"], job.priority, job.tags, job.queue) == (6, 7, ("a",), "billing")
    assert job.timeout == before.timeout and job.retry_policy is not None and job.retry_policy.attempts == 4
    assert job.dedupe_key is None and job.run_at > before.run_at
    assert (await api.scheduler.get_job(before.id)).data["amount"] == 5
    assert await actions(api) == [("job.copy", before.id)]
    (row,) = await api.scheduler.audit.find()
    assert row.value_after()["copy"] == job.id


async def test_a_copy_keeps_the_label(api: Api) -> None:
    for body in ({"endpoint": "https://a.example.com/", "name": "billing"}, {"name": "shop.any", "label": "billing"}):
        made = (await api.post("/api/jobs", {**body, "delay": "1h"})).data
        assert (await api.post(f"/api/jobs/{made['id']}/copy", {})).data["label"] == "billing"


async def test_a_copy_without_a_body_copies_all_and_its_idempotency_key_makes_one(api: Api) -> None:
    before = await api.scheduler.schedule("shop.any", {"a": 2**60}, delay=600)
    headers = {"Idempotency-Key": "again"}
    one = await api.post(f"/api/jobs/{before.id}/copy", headers=headers)
    two = await api.post(f"/api/jobs/{before.id}/copy", headers=headers)
    assert one.data["id"] == two.data["id"] and one.data["data"] == {"a": 2**60}
    assert len(await actions(api)) == 1


async def test_a_copy_is_checked_by_the_schema_and_by_the_scope(api: Api) -> None:
    data = {"amount": 5, "to": {"city": "x", "zip": 1}}
    before = await api.scheduler.schedule("shop.charge", data, delay=600)
    refused = await api.post(f"/api/jobs/{before.id}/copy", {"data": {"amount": 5}})
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, "data.to")
    scoped = await keyed(api, "operator", queues=["billing"])
    assert (await scoped.post(f"/api/jobs/{before.id}/copy", {"queue": "other"})).status == 403
    other = await keyed(api, "operator", queues=["other"])
    assert (await other.post(f"/api/jobs/{before.id}/copy", {})).status == 404
    viewer = await keyed(api, "viewer")
    assert (await viewer.post(f"/api/jobs/{before.id}/copy", {})).status == 403


@pytest.mark.parametrize("word", ["[redacted]", "[encrypted]"])
async def test_a_word_for_a_hidden_value_is_refused_and_never_stored(api: Api, word: str) -> None:
    before = await api.scheduler.schedule("shop.any", {"password": "tell-no-one", "n": 1}, delay=600)
    shown = (await api.get(f"/api/jobs/{before.id}/detail")).data["data"]
    assert shown["password"] != "tell-no-one"
    refused = await api.post(f"/api/jobs/{before.id}/copy", {"data": {"n": 2, "password": word}})
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, "data")
    whole = (await api.post(f"/api/jobs/{before.id}/copy", {})).data
    assert (await api.scheduler.get_job(whole["id"])).data["password"] == "tell-no-one"
    assert "tell-no-one" not in str(whole)


async def test_what_was_encrypted_stays_encrypted_in_a_copy(make_scheduler: Make) -> None:
    keys = {"k": b"0" * 32}
    async with serving(make_scheduler(keys=keys)) as api:
        before = await api.scheduler.schedule("x", {"card": "4111", "n": 1}, encrypt=["card"], delay=600)
        copy = await api.scheduler.get_job((await api.post(f"/api/jobs/{before.id}/copy", {})).data["id"])
        assert copy.encrypted and copy.data == {"card": "4111", "n": 1}
        given = (await api.post(f"/api/jobs/{before.id}/copy", {"data": {"card": "4242"}})).data
        assert given["encrypted"] and given["data"] == {"card": "[encrypted]"}
    async with serving(make_scheduler()) as keyless:
        refused = await keyless.post(f"/api/jobs/{before.id}/copy", {})
        assert (refused.status, refused.body["errors"][0]["field"]) == (422, "data")


async def test_a_copied_webhook_keeps_its_request_and_its_hidden_header(api: Api) -> None:
    body = {"endpoint": "https://example.com/a", "headers": {"Authorization": "Bearer tell-no-one"}, "delay": "1h"}
    before = (await api.post("/api/jobs", body)).data
    copy = (await api.post(f"/api/jobs/{before['jobId']}/copy", {"body": {"a": 1}, "delay": "2h"})).data
    job = await api.scheduler.get_job(copy["id"])
    assert job.data["request"]["headers"] == {"Authorization": "Bearer tell-no-one"}
    assert job.data["request"]["body"] == {"a": 1}
    assert "tell-no-one" not in str(copy)
    await eventually(lambda: actions(api))
