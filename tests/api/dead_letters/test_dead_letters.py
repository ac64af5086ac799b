"""Dead letters and redrives over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import actions, keyed
from mainspring import Fail

D = "/api/dead-letters"


async def die(api: Api, *jobs: dict[str, Any]) -> list[str]:
    """Dead letters of these jobs; their handlers always fail."""
    for name in {job["name"] for job in jobs}:
        if name not in (api.scheduler.workers.handler_names or ()):
            api.scheduler.job(name, retry=1)(_fail)
    await api.scheduler.start()
    made = await api.scheduler.schedule_bulk(jobs)
    for job in made:
        await api.scheduler.wait(job.id, 60)
    await api.scheduler.stop()
    await api.scheduler.connect()
    return [job.id for job in made]


def _fail(**data: Any) -> None:
    raise Fail(f"no luck with {data.get('n')} and {data.get('password')}")


@pytest.mark.slow
async def test_dead_letters_are_listed_latest_first_page_by_page(api: Api) -> None:
    ids = await die(api, *({"name": "bad", "data": {"n": n}} for n in range(5)))
    found: list[str] = []
    query = "limit=2"
    while True:
        reply = await api.get(f"{D}?{query}")
        found += [job["id"] for job in reply.data]
        assert reply.body["complete"]
        if reply.body["next"] is None:
            break
        query = f"limit=2&cursor={reply.body['next']}"
    assert sorted(found) == sorted(ids)
    times = [str((await api.scheduler.get_job(one)).finished_at) for one in found]
    assert times == sorted(times, reverse=True)


@pytest.mark.slow
async def test_dead_letters_are_filtered_and_shown_without_secrets(api: Api) -> None:
    one, two = await die(
        api,
        {"name": "bad", "data": {"n": 1, "password": "hunter2-x"}, "queue": "a", "tags": ["t"]},
        {"name": "worse", "data": {"n": 2}},
    )

    async def listed(**query: str) -> list[str]:
        return [job["id"] for job in (await api.get(D, params=query)).data]

    assert await listed(name="bad") == await listed(queue="a") == await listed(tag="t") == [one]
    assert await listed(text="WITH 2") == [two]
    assert await listed(name='{"$ne": null}') == await listed(text=".*") == []
    reply = await api.get(D, params={"name": "bad"})
    assert "hunter2" not in reply.text
    for wrong in ("name[$ne]=x", "unknown=1", "limit=0", "cursor=x", "since=now", "cursor=W10", "text=%00"):
        assert (await api.get(f"{D}?{wrong}")).status == 422


async def test_dead_letters_come_in_groups(api: Api) -> None:
    await die(api, *({"name": "bad", "data": {"n": n, "password": "hunter2-x"}} for n in range(3)), {"name": "worse"})
    reply = await api.get(f"{D}/groups")
    assert sorted((one["name"], one["count"], one["errorType"]) for one in reply.data) == [
        ("bad", 3, "Fail"),
        ("worse", 1, "Fail"),
    ]
    assert "hunter2" not in reply.text
    (group,) = (await api.get(f"{D}/groups?name=worse")).data
    assert (await api.get(D, params={"fingerprint": group["fingerprint"]})).data[0]["name"] == "worse"


async def test_dead_letters_are_run_again_with_other_data(api: Api) -> None:
    one, two = await die(api, {"name": "bad", "data": {"n": 1, "old": 1}}, {"name": "bad", "data": {"n": 2}})
    reply = await api.post(f"{D}/retry", {"ids": [one], "data": {"n": 7}, "remove": ["old"], "reason": "fixed"})
    assert (reply.status, reply.data["kind"], reply.data["done"]) == (202, "retry", 1)
    job = await api.scheduler.get_job(one)
    assert (job.state, dict(job.data)) == ("pending", {"n": 7})
    assert (await api.scheduler.get_job(two)).state == "failed"
    assert (await api.get(f"/api/redrives/{reply.data['id']}")).data["reason"] == "fixed"
    assert [entry["id"] for entry in (await api.get("/api/redrives")).data] == [reply.data["id"]]
    assert await actions(api) == [("dead_letters.retry", reply.data["id"])]


async def test_dead_letters_are_discarded_by_a_filter_or_all(api: Api) -> None:
    await die(api, {"name": "bad"}, {"name": "worse"}, {"name": "worst"})
    reply = await api.post(f"{D}/discard", {"filter": {"name": "bad"}})
    assert (reply.status, reply.data["done"]) == (202, 1)
    assert len((await api.get(D)).data) == 2
    assert (await api.post(f"{D}/discard", {"everything": True})).data["done"] == 2
    assert (await api.get(D)).data == []


async def test_a_redrive_is_cancelled_and_a_missing_one_is_not_found(api: Api) -> None:
    (one,) = await die(api, {"name": "bad"})
    redrive = (await api.post(f"{D}/retry", {"ids": [one]})).data["id"]
    assert (await api.post(f"/api/redrives/{redrive}/cancel", {})).data["state"] in ("done", "cancelled")
    assert (await api.get("/api/redrives/none")).status == 404
    assert (await api.post("/api/redrives/none/cancel", {})).status == 404
    assert [name for name, _ in await actions(api)] == ["dead_letters.retry", "redrive.cancel"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"filter": {}},
        {"everything": False},
        {"ids": []},
        {"ids": ["x"], "everything": True},
        {"ids": [{"$ne": None}]},
        {"filter": {"name": {"$ne": None}}},
        {"filter": {"$where": "1"}},
        {"filter": {"state": "completed"}},
        {"everything": True, "actor": "me"},
    ],
)
async def test_which_are_meant_has_to_be_said_plainly(api: Api, body: dict[str, Any]) -> None:
    (one,) = await die(api, {"name": "bad"})
    assert (await api.post(f"{D}/retry", body)).status == 422
    assert (await api.post(f"{D}/discard", body)).status == 422
    assert (await api.scheduler.get_job(one)).state == "failed"
    assert await actions(api) == []


@pytest.mark.slow
async def test_a_key_with_a_scope_sees_and_changes_its_own_dead_letters_only(api: Api) -> None:
    own, other, foreign = await die(
        api,
        {"name": "acme.x", "queue": "a"},
        {"name": "acme.x", "queue": "b"},
        {"name": "other", "queue": "a"},
    )
    everybody = await keyed(api)
    theirs = (await everybody.post(f"{D}/retry", {"ids": ["nothing"]})).data["id"]
    tenant = await keyed(api, "operator", queues=["a", "c"], prefixes=["acme."])
    assert [job["id"] for job in (await tenant.get(D)).data] == [own]
    assert [(one["name"], one["count"]) for one in (await tenant.get(f"{D}/groups")).data] == [("acme.x", 1)]
    assert (await tenant.get("/api/redrives")).data == []
    assert (await tenant.get(f"/api/redrives/{theirs}")).status == 404
    assert (await tenant.post(f"/api/redrives/{theirs}/cancel", {})).status == 404
    for verb in ("retry", "discard"):
        assert (await tenant.post(f"{D}/{verb}", {"everything": True})).status == 403
        assert (await tenant.post(f"{D}/{verb}", {"ids": [own, foreign]})).status == 404
        for filter in ({"queue": "b", "name": "acme.x"}, {"name": "acme.x"}, {"queue": "a"}, {"text": "luck"}):
            assert (await tenant.post(f"{D}/{verb}", {"filter": filter})).status == 403
    for one in (own, other, foreign):
        assert (await api.scheduler.get_job(one)).state == "failed"
    reply = await tenant.post(f"{D}/retry", {"filter": {"queue": "a", "name": "acme.x"}})
    assert reply.data["done"] == 1
    assert (await api.scheduler.get_job(own)).state == "pending"
    assert (await tenant.get(f"/api/redrives/{reply.data['id']}")).status == 200


async def test_a_viewer_changes_no_dead_letters(api: Api) -> None:
    (one,) = await die(api, {"name": "bad"})
    viewer = await keyed(api, "viewer")
    assert (await viewer.get(D)).status == 200
    for verb in ("retry", "discard"):
        assert (await viewer.post(f"{D}/{verb}", {"ids": [one]})).status == 403
    assert (await api.scheduler.get_job(one)).state == "failed"
