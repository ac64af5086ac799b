"""Schedules and calendars over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.conftest import Api, Reply
from harness.api_keys import actions, keyed
from mainspring import Cron, Every, Except, ScheduleNotFound

S = "/api/schedules"
NIGHTLY = {"name": "report", "data": {"to": "a", "password": "hunter2"}, "repeat": {"cron": "0 3 * * *"}}


async def put(api: Api, schedule_id: str = "nightly", **changes: Any) -> Any:
    return (await api.put(f"{S}/{schedule_id}", NIGHTLY | changes)).data


async def test_a_schedule_is_stored_shown_replaced_and_deleted(api: Api) -> None:
    made = await put(api, queue="a", jitter="2s", overlap="skip", retryAttempts=2, executionType="AT_LEAST_ONCE")
    assert (made["id"], made["state"], made["queue"], made["jitter"]) == ("nightly", "active", "a", "2s")
    assert (made["rule"]["kind"], made["policy"]["overlap"]) == ("cron", "skip")
    assert made["data"] == {"to": "a", "password": "[redacted]"}
    assert made["nextAt"].endswith("Z")
    assert (await api.get(f"{S}/nightly")).data == made
    replaced = await put(api, repeat={"every": 300_000})
    assert (replaced["description"].startswith("every 5 minutes"), replaced["policy"]["overlap"]) == (True, "allow")
    assert (await api.delete(f"{S}/nightly")).data["id"] == "nightly"
    assert (await api.get(f"{S}/nightly")).status == 404
    assert (await api.delete(f"{S}/nightly")).status == 404
    assert await actions(api) == [
        ("schedule.put", "nightly"),
        ("schedule.put", "nightly"),
        ("schedule.delete", "nightly"),
    ]
    rows = await api.scheduler.audit.find()
    assert all("hunter2" not in f"{row.before}{row.after}" for row in rows)


async def test_a_schedule_is_paused_resumed_skipped_and_triggered(api: Api) -> None:
    before = await put(api)
    paused = (await api.post(f"{S}/nightly/pause", {"reason": "holidays"})).data
    assert (paused["state"], paused["paused"]["reason"], paused["paused"]["actor"]) == ("paused", "holidays", "local")
    assert (await api.post(f"{S}/nightly/resume", {})).data["state"] == "active"
    assert (await api.post(f"{S}/nightly/skip", {})).data["nextAt"] > before["nextAt"]
    reply = await api.post(f"{S}/nightly/trigger", {"reason": "now"})
    assert (reply.status, reply.data["scheduleId"], reply.data["data"]["password"]) == (201, "nightly", "[redacted]")
    verbs = ["put", "pause", "resume", "skip", "trigger"]
    assert await actions(api) == [(f"schedule.{verb}", "nightly") for verb in verbs]


async def test_a_run_by_hand_that_would_overlap_is_a_conflict(api: Api) -> None:
    await put(api, overlap="skip")
    assert (await api.post(f"{S}/nightly/trigger", {})).status == 201
    assert (await api.post(f"{S}/nightly/trigger", {})).status == 409
    assert (await api.post(f"{S}/nightly/trigger", {"overlap": "allow"})).status == 201


async def test_the_next_firings_are_shown(api: Api) -> None:
    await put(api, repeat={"cron": "0 9 * * *", "timezone": "Europe/Paris"})
    data = (await api.get(f"{S}/nightly/upcoming?count=3")).data
    assert len(data) == 3
    assert all("T09:00:00+0" in one["local"] and one["at"].endswith("Z") for one in data)


async def test_a_rule_is_previewed_and_nothing_is_stored(api: Api) -> None:
    body = {"schedule": "30 2 * * *", "timezone": "Europe/Paris", "count": 2, "start": "2026-03-28T12:00:00Z"}
    data = (await api.post(f"{S}/preview", body)).data
    assert [one["local"] for one in data] == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    assert data[0]["notes"]
    for rule in ({"every": 1000}, {"every": "5m"}, {"rrule": "FREQ=DAILY"}, {"at": ["2099-01-01T00:00:00Z"]}):
        assert (await api.post(f"{S}/preview", {"repeat": rule})).data
    assert (await api.get(S)).data == []
    assert await actions(api) == []


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"cron": "* * *"},
        {"cron": "* * * * *", "every": 1000},
        {"cron": "* * * * *", "timezone": "Nowhere/Else"},
        {"every": 1},
        {"every": "soon"},
        {"rrule": "FREQ=SOMETIMES"},
        {"at": []},
        {"every": 1000, "timezone": "UTC"},
        {"cron": {"$ne": None}},
        {"cron": "* * * * *", "unknown": 1},
        {"cron": "0 0 31 2 *"},
    ],
)
async def test_a_rule_that_cannot_be_is_refused(api: Api, rule: dict[str, Any]) -> None:
    assert (await api.post(f"{S}/preview", {"repeat": rule})).status == 422
    assert (await api.put(f"{S}/x", NIGHTLY | {"repeat": rule})).status == 422
    assert (await api.get(S)).data == []


@pytest.mark.parametrize(
    "change",
    [
        {"runs": 5},
        {"paused": None},
        {"declaredBy": "x"},
        {"name": "mainspring:http"},
        {"name": ""},
        {"name": {"$gt": ""}},
        {"priority": 11},
        {"overlap": "sometimes"},
        {"data": [1]},
        {"data": {"n": 10**30}},
        {"data": {"s": "\ud800"}},
        {"data": {"a\0b": 1}},
        {"startAt": "0001-01-01T00:00:00+14:00"},
        {"startAt": "2026-01-01T00:00:00"},
        {"startAt": "2026-02-01T00:00:00Z", "endAt": "2026-01-01T00:00:00Z"},
    ],
)
async def test_fields_that_are_not_known_or_not_right_are_refused(api: Api, change: dict[str, Any]) -> None:
    assert (await api.put(f"{S}/x", NIGHTLY | change)).status == 422
    with pytest.raises(ScheduleNotFound):
        await api.scheduler.schedules.get("x")


async def test_the_ledger_tells_what_became_of_each_firing(api: Api) -> None:
    await put(api, repeat={"every": 3_600_000})
    await api.post(f"{S}/nightly/skip", {"reason": "maintenance"})
    now = datetime.now(UTC)
    window = {"start": now.isoformat(), "end": (now + timedelta(hours=3)).isoformat()}
    data = (await api.get(f"{S}/nightly/ledger", params=window)).data
    assert [one["outcome"] for one in data] == ["skipped", "expected", "expected"][: len(data)]
    assert (await api.get(f"{S}/nightly/ledger", params=window | {"limit": "1"})).data == data[:1]
    assert (await api.get(f"{S}/nightly/ledger")).status == 200
    for wrong in ({"start": "x"}, {"limit": "0"}, {"start[$gt]": "1"}):
        assert (await api.get(f"{S}/nightly/ledger", params=wrong)).status == 422


async def test_past_firings_are_made_up_for_once(api: Api) -> None:
    now = datetime.now(UTC)
    anchor = now - timedelta(hours=5, minutes=30)
    await api.scheduler.schedule(
        "report", repeat=Every("1h", anchor=anchor), schedule_id="nightly", start_at=anchor, misfire="skip"
    )
    window = {"start": (now - timedelta(hours=4)).isoformat(), "end": now.isoformat(), "which": "all"}
    preview = (await api.post(f"{S}/nightly/backfill", window | {"preview": True})).data
    reply = (await api.post(f"{S}/nightly/backfill", window)).data
    assert (reply["done"], reply["made"]) == (True, len(preview["firings"]))
    assert (await api.post(f"{S}/nightly/backfill", window)).data["id"] == reply["id"]
    assert [name for name, _ in await actions(api)] == ["schedule.backfill"] * 2
    future = {"start": (now + timedelta(days=1)).isoformat(), "end": (now + timedelta(days=2)).isoformat()}
    assert (await api.post(f"{S}/nightly/backfill", future)).status == 422
    assert (await api.post(f"{S}/nightly/backfill", window | {"which": "some"})).status == 422


async def test_schedules_are_listed_page_by_page_and_filtered(api: Api) -> None:
    for n in range(5):
        await put(api, f"s{n}", name="even" if n % 2 == 0 else "odd", queue=f"q{n}")
    await api.post(f"{S}/s2/pause", {})
    first = await api.get(f"{S}?limit=2")
    second = await api.get(f"{S}?limit=2&cursor={first.body['next']}")
    assert [one["id"] for one in first.data + second.data] == ["s0", "s1", "s2", "s3"]

    async def listed(query: str) -> list[str]:
        return [one["id"] for one in (await api.get(f"{S}?{query}")).data]

    assert await listed("state=paused") == ["s2"]
    assert await listed("name=even&queue=q4") == ["s4"]
    assert await listed('name={"$ne":null}') == []
    for wrong in ("state=some", "name[$ne]=x", "limit=1000", "unknown=1"):
        assert (await api.get(f"{S}?{wrong}")).status == 422


VERBS = [
    ("GET", "", None),
    ("DELETE", "", None),
    ("POST", "/pause", {}),
    ("POST", "/resume", {}),
    ("POST", "/skip", {}),
    ("POST", "/trigger", {}),
    ("GET", "/upcoming", None),
    ("GET", "/ledger", None),
    ("POST", "/backfill", {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}),
]


@pytest.mark.parametrize(("method", "verb", "body"), VERBS)
async def test_a_schedule_of_somebody_else_is_not_there(api: Api, method: str, verb: str, body: Any) -> None:
    before = await api.scheduler.schedule("other", repeat=Cron("0 3 * * *"), schedule_id="foreign")
    tenant = await keyed(api, "operator", queues=["a"], prefixes=["acme."])
    options = {} if body is None else {"json": body}
    foreign, missing = [await tenant.call(method, f"{S}/{one}{verb}", **options) for one in ("foreign", "missing")]
    assert (foreign.status, foreign.text) == (404, missing.text.replace("missing", "foreign"))
    assert await actions(api) == []
    assert (await api.scheduler.schedules.get("foreign")).rev == before.rev
    viewer = await keyed(api, "viewer")
    assert (await viewer.call(method, f"{S}/foreign{verb}", **options)).status == (200 if method == "GET" else 403)


async def test_a_key_with_a_scope_manages_its_own_schedules(api: Api) -> None:
    tenant = await keyed(api, "operator", queues=["a"], prefixes=["acme."])
    await api.scheduler.schedule("other", repeat=Cron("0 3 * * *"), schedule_id="foreign")
    mine = "a:acme.:mine"
    assert (await tenant.put(f"{S}/{mine}", NIGHTLY | {"name": "acme.x", "queue": "a"})).status == 200
    assert (await tenant.put(f"{S}/{mine}", NIGHTLY | {"name": "acme.x", "queue": "b"})).status == 403
    assert (await tenant.put(f"{S}/{mine}", NIGHTLY | {"name": "acme.x"})).status == 403
    assert (await tenant.put(f"{S}/{mine}", NIGHTLY | {"name": "other", "queue": "a"})).status == 403
    assert [one["id"] for one in (await tenant.get(S)).data] == [mine]
    assert (await tenant.post(f"{S}/{mine}/pause", {})).status == 200


C = "/api/calendars"


async def test_a_calendar_is_stored_used_and_deleted(api: Api) -> None:
    body = {"days": ["2030-12-24"], "ranges": [["2030-01-01", "2030-01-03"]], "yearly": ["12-25"], "weekdays": ["SAT"]}
    made = (await api.put(f"{C}/holidays", body)).data
    assert {key: made[key] for key in body} == body
    assert (made["rev"], made["actor"]) == (1, "local")
    assert (await api.get(f"{C}/holidays")).data == made
    assert (await api.get(C)).data == [made]
    await put(api, repeat={"cron": "0 3 * * *", "except": ["holidays"]})
    assert (await api.delete(f"{C}/holidays")).status == 409
    await api.delete(f"{S}/nightly")
    assert (await api.delete(f"{C}/holidays")).status == 200
    assert (await api.get(f"{C}/holidays")).status == 404
    told = [name for name, _ in await actions(api) if name.startswith("calendar")]
    assert told == ["calendar.put", "calendar.delete"]


async def test_a_calendar_that_cannot_be_is_refused_and_a_missing_one_is_not_found(api: Api) -> None:
    for body in (
        {"days": ["tomorrow"]},
        {"days": [{"$ne": 1}]},
        {"rev": 3},
        {"weekdays": ["XXX"]},
        {"yearly": ["13-1"]},
    ):
        assert (await api.put(f"{C}/x", body)).status == 422
    assert (await api.put(f"{C}/a@b", {})).status == 422
    assert (await api.delete(f"{C}/x")).status == 404
    assert (await api.put(f"{S}/x", NIGHTLY | {"repeat": {"cron": "0 3 * * *", "except": ["none"]}})).status == 404


ICS = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART{}\nSUMMARY:Closed\nEND:VEVENT\nEND:VCALENDAR\n"
CHRISTMAS, LATE = ICS.format(";VALUE=DATE:20301224"), ICS.format(":20301224T233000Z")


async def put_file(api: Api, name: str, ics: str | bytes) -> Reply:
    return await api.call("PUT", f"{C}/{name}", data=ics, headers={"Content-Type": "text/calendar; charset=utf-8"})


async def test_a_calendar_is_stored_from_an_ics_file(api: Api) -> None:
    made = (await put_file(api, "holidays", CHRISTMAS)).data
    assert (made["days"], made["rev"], made["actor"]) == (["2030-12-24"], 1, "local")
    assert (await put_file(api, "holidays", LATE)).data["days"] == ["2030-12-24"]
    assert (await put_file(api, "holidays?timezone=Europe/Berlin", LATE)).data["days"] == ["2030-12-25"]
    assert [name for name, _ in await actions(api)].count("calendar.put") == 3


async def test_an_ics_file_that_cannot_be_read_or_is_large_is_refused_and_nothing_is_stored(api: Api) -> None:
    for bad in ("garbage", "", b"\xff\xfe", '{"days": []}'):
        assert (await put_file(api, "x", bad)).status == 422
    assert (await put_file(api, "x?timezone=Nowhere", CHRISTMAS)).status == 422
    assert (await put_file(api, "x?zone=UTC", CHRISTMAS)).status == 422
    assert (await put_file(api, "x", CHRISTMAS + " " * 256 * 1024)).status == 413
    assert (await api.get(C)).data == []
    other = await api.call("POST", "/api/jobs", data=CHRISTMAS, headers={"Content-Type": "text/calendar"})
    assert other.status == 422
    viewer = await keyed(api, "viewer")
    assert (await put_file(viewer, "x", CHRISTMAS)).status == 403
    tenant = await keyed(api, "operator", queues=["a"])
    assert (await put_file(tenant, "holidays", CHRISTMAS)).status == 422
    assert (await put_file(tenant, "a:holidays", CHRISTMAS)).status == 200


async def test_a_key_with_a_scope_has_calendars_of_its_own_and_no_others(api: Api) -> None:
    await api.put(f"{C}/holidays", {"days": ["2030-12-24"]})
    tenant = await keyed(api, "operator", queues=["a"])
    assert (await tenant.get(C)).data == []
    assert (await tenant.put(f"{C}/holidays", {})).status == 422
    assert (await tenant.delete(f"{C}/holidays")).status == 404
    made = (await tenant.put(f"{C}/a:holidays", {"days": ["2030-12-24"]})).data
    assert (await tenant.get(f"{C}/a:holidays")).data == made
    await api.scheduler.schedule("elsewhere", repeat=Except(Cron("0 3 * * *"), "a:holidays"), schedule_id="theirs")
    refused = await tenant.delete(f"{C}/a:holidays")
    assert (refused.status, "theirs" in refused.text) == (409, False)
