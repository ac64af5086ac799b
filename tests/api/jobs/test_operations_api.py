"""Operations over HTTP: acting on many jobs with a preview, a reason and a moment to undo it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import actions, keyed
from harness.inside import inside
from harness.looking import Database
from harness.operating import counts, fill, job, jobs, take_steps
from mainspring import Scheduler

PATH = "/api/operations"
WHY = {"reason": "The bank is back."}


@pytest.fixture
async def db(api: Api) -> AsyncIterator[Database]:
    yield (await api.scheduler.connect()).client.get_default_database()


async def carry_out(scheduler: Scheduler, operation_id: str) -> tuple[str, int, int, int]:
    """Let an operation be carried out as by a worker, although its time has not come."""
    store = inside(scheduler).open_store
    await store.connection.operations.update_one(
        {"_id": operation_id, "state": "waiting"}, [{"$set": {"starts_at": "$created_at"}}]
    )
    return counts(await take_steps(scheduler, await scheduler.operations.get(operation_id)))


# -- creating ------------------------------------------------------------------------------------------------------


async def test_an_operation_is_created_with_its_count_and_a_sample_and_carried_out(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, *jobs(7, "failed", name="charge"), *jobs(2, "failed"))
    body = {"verb": "retry", "filter": {"state": "failed", "name": "charge"}, **WHY}
    reply = await api.post(PATH, body)
    assert (reply.status, reply.data["state"], reply.data["count"], reply.data["capped"]) == (202, "waiting", 7, False)
    assert [one["name"] for one in reply.data["sample"]] == ["charge"] * 5
    begin, start = (datetime.fromisoformat(reply.data[name]) for name in ("createdAt", "startsAt"))
    assert (start - begin).total_seconds() == 10
    assert await carry_out(api.scheduler, reply.data["id"]) == ("completed", 7, 0, 0)
    shown = (await api.get(f"{PATH}/{reply.data['id']}")).data
    assert shown["progress"] == {"examined": 7, "changed": 7, "skipped": 0, "refused": 0, "reasons": []}
    assert shown["filter"]["name"] == "charge" and shown["reason"] == WHY["reason"]
    assert shown["startedAt"] and shown["finishedAt"] and shown["cutoff"] and shown["error"] is None
    assert [one["state"] for one in (await api.get("/api/jobs/search?name=charge")).data] == ["pending"] * 7


async def test_a_dry_run_counts_shows_and_stores_nothing(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, *jobs(3))
    reply = await api.post(PATH, {"verb": "cancel", "filter": {"name": "work"}, "dryRun": True})
    assert (reply.status, reply.data["count"], reply.data["capped"], reply.data["dryRun"]) == (200, 3, False, True)
    assert len(reply.data["sample"]) == 3 and "id" not in reply.data
    assert (await api.get(PATH)).data == [] and await actions(api) == []


async def test_counting_stops_at_two_thousand(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, *jobs(2_001))
    reply = await api.post(PATH, {"verb": "cancel", "filter": {"state": "pending"}, "dryRun": True})
    assert (reply.data["count"], reply.data["capped"], len(reply.data["sample"])) == (2_000, True, 5)


async def test_values_in_the_data_are_compared_as_in_a_search(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, *(job(data={"user": {"id": one}}) for one in (7, "7", 8)))

    async def counted(value: Any) -> int:
        body = {"verb": "cancel", "filter": {"data": {"user.id": value}}, "dryRun": True}
        return int((await api.post(PATH, body)).data["count"])

    assert [await counted("7"), await counted(7), await counted("x"), await counted('{"$ne": 1}')] == [2, 1, 0, 0]
    assert len((await api.get("/api/jobs/search?data.user.id=7")).data) == 2


async def test_it_can_start_at_once_or_later(api: Api) -> None:
    for span, seconds in (("0s", 0), ("5m", 300)):
        data = (await api.post(PATH, {"verb": "cancel", "filter": {"name": "x"}, **WHY, "startAfter": span})).data
        begin, start = (datetime.fromisoformat(data[name]) for name in ("createdAt", "startsAt"))
        assert (start - begin).total_seconds() == seconds


async def test_priority_and_queue_are_changed_for_jobs_named_by_their_ids(api: Api, db: Database) -> None:
    ids = await fill(api.scheduler, db, *jobs(2))
    made = (await api.post(PATH, {"verb": "set_priority", "ids": ids, "priority": 1, **WHY})).data
    assert (made["named"], made["ids"], made["filter"], made["priority"]) == (2, ids, None, 1)
    assert await carry_out(api.scheduler, made["id"]) == ("completed", 2, 0, 0)
    made = (await api.post(PATH, {"verb": "move", "ids": [*ids, "none"], "queue": "slow", **WHY})).data
    assert await carry_out(api.scheduler, made["id"]) == ("completed", 2, 1, 0)
    shown = (await api.get(f"{PATH}/{made['id']}")).data["progress"]
    assert shown["reasons"] == [{"jobId": "none", "outcome": "skipped", "reason": "it does not exist"}]
    assert {(one["priority"], one["queue"]) for one in (await api.get("/api/jobs/search")).data} == {(1, "slow")}


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"verb": "explode", "filter": {"name": "x"}}, "verb", "'retry', 'cancel'"),
        ({"verb": "cancel", "filter": {}}, "filter", "An empty filter would mean all jobs"),
        ({"verb": "cancel", "filter": {"data": {}}}, "filter", "An empty filter would mean all jobs"),
        ({"verb": "cancel"}, "filter", "by a filter or by ids"),
        ({"verb": "cancel", "filter": {"name": "x"}, "ids": ["a"]}, "filter", "by a filter or by ids"),
        ({"verb": "cancel", "ids": []}, "ids", "at least 1"),
        ({"verb": "cancel", "ids": ["a"] * 1001}, "ids", "at most 1000"),
        ({"verb": "cancel", "filter": {"name": "x"}, "reason": " "}, "reason", "needs a reason"),
        ({"verb": "cancel", "filter": {"name": "x"}, "reason": ""}, "reason", "needs a reason"),
        ({"verb": "set_priority", "filter": {"name": "x"}}, "priority", "needs the priority"),
        ({"verb": "set_priority", "filter": {"name": "x"}, "priority": 11}, "priority", "less than or equal to 10"),
        ({"verb": "cancel", "filter": {"name": "x"}, "priority": 3}, "priority", "is for set_priority"),
        ({"verb": "move", "filter": {"name": "x"}}, "queue", "needs the queue"),
        ({"verb": "run", "filter": {"name": "x"}, "queue": "y"}, "queue", "is for move"),
        ({"verb": "retry", "filter": {"state": "pending"}}, "filter.state", "retry works on failed, cancelled and"),
        ({"verb": "cancel", "filter": {"state": "gone"}}, "filter.state", "'pending'"),
        ({"verb": "cancel", "filter": {"nmae": "x"}}, "filter.nmae", "There is no such field"),
        ({"verb": "cancel", "filter": {"data": {"a.$where": 1}}}, "filter", "A path in the data"),
        ({"verb": "cancel", "filter": {"name": "x"}, "startAfter": "2h"}, "startAfter", "within an hour"),
        ({"verb": "cancel", "filter": {"name": "x"}, "startAfter": 10}, "startAfter", "text with its unit"),
        ({"verb": "cancel", "filter": {"data": {"password": "x"}}}, "filter.data", "redacted"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_the_field_and_the_cure(
    api: Api, body: dict[str, Any], field: str, words: str
) -> None:
    reply = await api.post(PATH, WHY | body)
    assert reply.status == 422, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.body["errors"][0]["field"] == field and words in reply.body["errors"][0]["detail"]
    assert (await api.get(PATH)).data == [] and await actions(api) == []


# -- undoing, and looking ------------------------------------------------------------------------------------------


async def test_an_operation_that_is_cancelled_before_it_starts_has_done_nothing(api: Api, db: Database) -> None:
    ids = await fill(api.scheduler, db, *jobs(2))
    made = (await api.post(PATH, {"verb": "delete", "filter": {"name": "work"}, **WHY})).data["id"]
    cancelled = (await api.post(f"{PATH}/{made}/cancel")).data
    assert (cancelled["state"], cancelled["startedAt"], cancelled["progress"]["examined"]) == ("cancelled", None, 0)
    assert await carry_out(api.scheduler, made) == ("cancelled", 0, 0, 0)
    assert {one["id"] for one in (await api.get("/api/jobs/search")).data} == set(ids)
    assert await actions(api) == [("operation.create", made), ("operation.cancel", made)]


async def test_creation_cancellation_and_end_are_in_the_audit_log_with_reason_and_counts(
    api: Api, db: Database
) -> None:
    await fill(api.scheduler, db, *jobs(2))
    admin = await keyed(api)
    made = (await admin.post(PATH, {"verb": "cancel", "filter": {"name": "work"}, **WHY})).data["id"]
    await carry_out(api.scheduler, made)
    await admin.post(f"{PATH}/{made}/cancel")
    rows = list(reversed(await api.scheduler.audit.find(target=made)))
    assert [row.action for row in rows] == ["operation.create", "operation.end", "operation.cancel"]
    create, end, cancel = (row.value_after() for row in rows)
    assert (create["verb"], create["filter"], create["reason"], create["count"]) == (
        "cancel",
        {"name": "work"},
        WHY["reason"],
        2,
    )
    assert (end["state"], end["changed"], end["reason"], end["actor"]) == ("completed", 2, WHY["reason"], rows[0].actor)
    assert (cancel["state"], cancel["changed"]) == ("completed", 2)


async def test_operations_are_listed_latest_first_page_by_page(api: Api) -> None:
    made = [
        (await api.post(PATH, {"verb": "cancel", "filter": {"name": "x"}, "reason": f"number {n}"})).data["id"]
        for n in range(5)
    ]
    listed: list[str] = []
    query = "limit=2"
    while True:
        reply = await api.get(f"{PATH}?{query}")
        listed += [one["id"] for one in reply.data]
        assert reply.body["complete"]
        if reply.body["next"] is None:
            break
        query = f"limit=2&cursor={reply.body['next']}"
    assert listed == made[::-1]
    assert (await api.get(f"{PATH}/none")).status == (await api.post(f"{PATH}/none/cancel")).status == 404
    for wrong in ("limit=0", "limit=201", "cursor=x", "state=running"):
        assert (await api.get(f"{PATH}?{wrong}")).status == 422


async def test_a_list_tells_few_reasons_and_no_ids(api: Api, db: Database) -> None:
    made = (await api.post(PATH, {"verb": "run", "ids": [f"none-{n}" for n in range(9)], **WHY})).data["id"]
    await carry_out(api.scheduler, made)
    (listed,) = (await api.get(PATH)).data
    assert (len(listed["progress"]["reasons"]), listed["named"], "ids" in listed) == (5, 9, False)
    shown = (await api.get(f"{PATH}/{made}")).data
    assert (len(shown["progress"]["reasons"]), len(shown["ids"])) == (9, 9)


# -- roles and tenants ---------------------------------------------------------------------------------------------


async def test_an_operator_creates_and_cancels_and_a_viewer_looks(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, *jobs(1))
    operator, viewer = await keyed(api, "operator"), await keyed(api, "viewer")
    body = {"verb": "delete", "filter": {"name": "work"}, **WHY}
    assert (await viewer.post(PATH, body)).status == (await viewer.post(PATH, body | {"dryRun": True})).status == 403
    made = (await operator.post(PATH, body)).data
    assert made["createdBy"].startswith("key:")
    assert (await viewer.get(f"{PATH}/{made['id']}")).status == 200
    assert (await viewer.post(f"{PATH}/{made['id']}/cancel")).status == 403
    assert (await operator.post(f"{PATH}/{made['id']}/cancel")).data["state"] == "cancelled"


async def test_a_key_with_a_scope_acts_on_its_own_jobs_only_and_sees_what_it_could_touch(
    api: Api, db: Database
) -> None:
    own, other, foreign = await fill(
        api.scheduler, db, job(name="acme.x", queue="a"), job(name="acme.x", queue="b"), job(name="other", queue="a")
    )
    admin = await keyed(api)
    theirs = (await admin.post(PATH, {"verb": "cancel", "filter": {"queue": "a"}, **WHY})).data["id"]
    tenant = await keyed(api, "operator", queues=["a"], prefixes=["acme."])
    colleague = await keyed(api, "viewer", queues=["a", "c"], prefixes=["acme."])
    stranger = await keyed(api, "viewer", queues=["b"])
    assert (await tenant.get(PATH)).data == [] and (await tenant.get(f"{PATH}/{theirs}")).status == 404
    assert (await tenant.post(f"{PATH}/{theirs}/cancel")).status == 404
    made = (await tenant.post(PATH, {"verb": "cancel", "filter": {"state": "pending"}, **WHY})).data
    assert (made["count"], [one["id"] for one in made["sample"]]) == (1, [own])
    named = (await tenant.post(PATH, {"verb": "cancel", "ids": [own, other, foreign], **WHY})).data
    assert (named["count"], [one["id"] for one in named["sample"]]) == (1, [own])
    assert [one["id"] for one in (await colleague.get(PATH)).data] == [named["id"], made["id"]]
    assert (await stranger.get(PATH)).data == [] and (await stranger.get(f"{PATH}/{made['id']}")).status == 404
    assert await carry_out(api.scheduler, made["id"]) == ("completed", 1, 0, 0)
    assert await carry_out(api.scheduler, named["id"]) == ("completed", 0, 3, 0)
    assert {(await api.scheduler.get_job(one)).state for one in (other, foreign)} == {"pending"}
    out = await tenant.post(PATH, {"verb": "move", "filter": {"queue": "a"}, "queue": "b", **WHY})
    assert (out.status, out.body["errors"][0]["field"]) == (403, "queue")


async def test_an_operation_of_a_revoked_key_stops_and_says_so(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, *jobs(2))
    admin, operator = await keyed(api), await keyed(api, "operator")
    made = (await operator.post(PATH, {"verb": "cancel", "filter": {"name": "work"}, **WHY})).data
    await api.scheduler.api_keys.revoke(made["createdBy"].removeprefix("key:"))
    assert await carry_out(api.scheduler, made["id"]) == ("failed", 0, 0, 0)
    assert "revoked" in (await admin.get(f"{PATH}/{made['id']}")).data["error"]


async def test_values_that_are_not_shown_are_not_shown_in_a_sample(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, job(data={"password": "hunter2-x"}))
    reply = await api.post(PATH, {"verb": "cancel", "filter": {"name": "work"}, **WHY})
    assert len(reply.data["sample"]) == 1 and "hunter2" not in reply.text
