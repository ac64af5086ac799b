"""The pages of schedules over HTTP: rows, last firings, coming firings, the preview of a form, and partial changes."""

from __future__ import annotations

from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import actions, keyed
from mainspring import Cron, Every

S = "/api/schedules"


async def test_a_row_has_its_rule_in_words_and_as_text_and_the_state_of_its_last_job(api: Api) -> None:
    await api.put(f"{S}/a", {"name": "x", "schedule": "0 9 * * mon-fri", "timezone": "Asia/Kolkata"})
    await api.put(f"{S}/b", {"name": "x", "every": "5m", "overlap": "skip"})
    first, second = (await api.get(S)).data
    assert first["description"] == "at 09:00, Monday to Friday, in Asia/Kolkata"
    assert (first["text"], first["zone"]) == ("0 9 * * MON-FRI", "Asia/Kolkata")
    assert (second["text"], second["zone"], second["lastState"], second["failing"]) == ("every 5m", None, None, False)


async def test_pages_are_ordered_and_filtered_and_a_cursor_belongs_to_its_order(api: Api) -> None:
    for number in range(5):
        await api.scheduler.schedule("x", repeat=Cron(f"{50 - number} * 1 1 *"), schedule_id=f"s{number}")
    page = (await api.get(f"{S}?limit=2&order=next")).body
    assert ([one["id"] for one in page["data"]], page["complete"]) == (["s4", "s3"], True)
    rest = (await api.get(f"{S}?limit=4&order=next&cursor={page['next']}")).body
    assert ([one["id"] for one in rest["data"]], rest["next"]) == (["s2", "s1", "s0"], None)
    assert (await api.get(f"{S}?limit=2&cursor={page['next']}")).status == 422
    assert [one["id"] for one in (await api.get(f"{S}?text=S3")).data] == ["s3"]
    reply = await api.get(f"{S}?order=next&state=paused")
    assert (reply.status, "no next firing" in reply.text) == (422, True)
    assert (await api.get(f"{S}?state=failing")).data == []


async def test_the_last_firings_of_a_page_come_in_the_order_of_the_request(api: Api) -> None:
    for id in ("a", "b"):
        await api.scheduler.schedule("x", repeat=Every("1h"), schedule_id=id, queue=id)
        await api.post(f"{S}/{id}/trigger", {"reason": "why not"})
    data = (await api.post(f"{S}/recent", {"ids": ["b", "a", "none"], "count": 5})).data
    assert [one["id"] for one in data] == ["b", "a"]
    firing = data[0]["firings"][-1]
    assert (firing["outcome"], firing["jobState"], firing["reason"], firing["actor"]) == (
        "triggered",
        "pending",
        "why not",
        "local",
    )
    assert (await api.post(f"{S}/recent", {"ids": [str(one) for one in range(41)]})).status == 422
    mine = await keyed(api, "viewer", queues=["a"])
    (own,) = (await mine.post(f"{S}/recent", {"ids": ["b", "a"]})).data
    assert (own["id"], own["firings"][-1]["reason"], own["firings"][-1]["actor"]) == ("a", "", None)


async def test_coming_firings_are_counted_within_the_scope_of_the_key(api: Api) -> None:
    await api.scheduler.schedule("x", repeat=Cron("0 * * * *"), schedule_id="a", queue="a")
    await api.scheduler.schedule("x", repeat=Cron("*/5 * * * *", "Europe/Paris"), schedule_id="b", queue="b")
    data = (await api.get(f"{S}/coming?start=2099-03-20T00:00:00Z&step=1h&heaviest=1")).data
    assert (data["complete"], data["schedules"], data["paused"], data["step"]) == (True, 2, 0, "1h")
    assert [(one["firings"], one["herd"], one["schedules"]) for one in data["buckets"]] == [(13, 2, 2)] * 24
    assert data["buckets"][0]["heaviest"] == [{"id": "b", "name": "x", "firings": 12}]
    window = "start=2099-03-28T00:00:00Z&end=2099-03-31T00:00:00Z&step=1d"
    (change,) = (await api.get(f"{S}/coming?{window}")).data["clockChanges"]
    assert (change["zone"], change["byMs"], change["schedules"]) == ("Europe/Paris", 3_600_000, 1)
    mine = await keyed(api, "viewer", queues=["a"])
    own = (await mine.get(f"{S}/coming")).data
    assert (own["schedules"], {one["firings"] for one in own["buckets"]}) == (1, {1})
    assert (await mine.get(f"{S}/coming?{window}")).data["clockChanges"] == []


@pytest.mark.parametrize(
    "query", ["step=1s", "step=1h&end=2000-01-01T00:00:00Z", "heaviest=21", "end=2999-01-01T00:00:00Z"]
)
async def test_a_window_that_cannot_be_is_refused(api: Api, query: str) -> None:
    assert (await api.get(f"{S}/coming?{query}")).status == 422


async def test_a_preview_says_the_rule_in_words_and_respects_start_end_and_runs(api: Api) -> None:
    body: dict[str, Any] = {"schedule": "0 9 * * *", "timezone": "Europe/Paris", "start": "2030-01-01T00:00:00Z"}
    reply = (await api.post(f"{S}/preview", {**body, "maxRuns": 2})).body
    assert [one["local"] for one in reply["data"]] == ["2030-01-01T09:00:00+01:00", "2030-01-02T09:00:00+01:00"]
    assert (reply["description"], reply["text"], reply["zone"], reply["problems"]) == (
        "at 09:00, every day, in Europe/Paris",
        "0 9 * * *",
        "Europe/Paris",
        [],
    )
    bounds = {"startAt": "2030-01-05T00:00:00Z", "endAt": "2030-01-06T23:00:00Z"}
    assert [one["at"][:10] for one in (await api.post(f"{S}/preview", {**body, **bounds})).data] == [
        "2030-01-05",
        "2030-01-06",
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schedule": "0 9 * *"}, "schedule"),
        ({"schedule": None, "every": "soon"}, "every"),
        ({"timezone": "Europe/Pariss"}, "schedule"),
        ({"startAt": "2031-01-01T00:00:00Z", "endAt": "2030-01-01T00:00:00Z"}, "endAt"),
        ({"jitter": 5}, "jitter"),
    ],
)
async def test_a_preview_names_the_field_that_is_wrong(api: Api, change: dict[str, Any], field: str) -> None:
    reply = await api.post(f"{S}/preview", {"schedule": "0 9 * * *", **change})
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"endpoint": "ftp://example.com/"}, "endpoint"),
        ({"name": "mainspring:x"}, "name"),
        ({"type": "email", "data": {}}, "data.to"),
        ({"name": "x", "headers": {"A": "b"}}, "headers"),
    ],
)
async def test_a_preview_lists_what_else_would_be_refused_beside_the_firings(
    api: Api, change: dict[str, Any], field: str
) -> None:
    reply = (await api.post(f"{S}/preview", {"schedule": "0 9 * * *", **change})).body
    assert len(reply["data"]) == 10
    assert [one["field"] for one in reply["problems"]] == [field]


@pytest.mark.parametrize(("field", "value"), [("pauseAfter", 3), ("startDeadline", "10m"), ("maxRuns", 9)])
async def test_null_removes_an_option_that_a_schedule_need_not_have(api: Api, field: str, value: object) -> None:
    await api.put(f"{S}/nightly", {"name": "x", "schedule": "0 9 * * *", field: value})
    before = (await api.get(f"{S}/nightly")).data
    after = (await api.call("PATCH", f"{S}/nightly", json={field: None})).data
    found = [(one if field in one else one["policy"])[field] for one in (before, after)]
    assert found == [value, None]


async def test_given_fields_of_a_schedule_are_changed_and_the_others_stay(api: Api) -> None:
    body = {
        "name": "x",
        "data": {"a": 1, "password": "hunter2"},
        "schedule": "0 9 * * *",
        "priority": 3,
        "jitter": "5s",
    }
    await api.put(f"{S}/team/nightly", body)
    changed = (await api.call("PATCH", f"{S}/team/nightly", json={"timezone": "Asia/Tokyo", "jitter": None})).data
    assert (changed["text"], changed["zone"], changed["priority"], changed["jitter"]) == (
        "0 9 * * *",
        "Asia/Tokyo",
        3,
        "0s",
    )
    shown = changed["data"]
    changed = (await api.call("PATCH", f"{S}/team/nightly", json={"data": {**shown, "a": 2}})).data
    stored = await api.scheduler.schedules.get("team/nightly")
    assert (changed["data"]["a"], stored.data) == (2, {"a": 2, "password": "hunter2"})
    assert (await api.call("PATCH", f"{S}/none", json={"priority": 3})).status == 404
    assert (await api.call("PATCH", f"{S}/team/nightly", json={"runAt": "2099-01-01T00:00:00Z"})).status == 422
    assert [action for action, _ in await actions(api)] == ["schedule.put", "schedule.update", "schedule.update"]
