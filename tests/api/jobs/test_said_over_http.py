"""What Python can say about jobs and schedules, HTTP can say too."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from api.conftest import Api, Make, serving
from harness.api_keys import actions, keyed
from mainspring import AnyOf, At, Calendar, Cron, Every, Except, RRule, Rule

JOB = {"name": "x"}
PARIS = "Europe/Paris"


@pytest.fixture
async def api(make_scheduler: Make) -> AsyncIterator[Api]:
    async with serving(make_scheduler(keys={"k1": b64encode(os.urandom(32)).decode()})) as api:
        yield api


async def stored_rule(api: Api, **times: Any) -> Rule:
    made = (await api.post("/api/jobs", {**JOB, **times})).data
    return (await api.scheduler.schedules.get(made["jobId"])).rule


async def test_a_rule_may_be_any_of_several(api: Api) -> None:
    await api.scheduler.calendars.put("holidays", Calendar(["2030-12-24"]))
    parts = [
        {"cron": "0 9 * * MON-FRI", "gap": "skip", "fold": "both"},
        {"cron": "0 11 * * SAT", "timezone": "Asia/Kolkata", "except": ["holidays"], "then": "next"},
        {"at": ["2030-01-01T00:00:00Z"]},
    ]
    rule = await stored_rule(api, repeat={"any": parts, "timezone": PARIS, "except": ["holidays"]})
    assert rule == Except(
        AnyOf(
            Cron("0 9 * * MON-FRI", PARIS, gap="skip", fold="both"),
            Except(Cron("0 11 * * SAT", "Asia/Kolkata"), "holidays", then="next"),
            At([datetime(2030, 1, 1, tzinfo=UTC)]),
        ),
        "holidays",
        timezone=PARIS,
    )
    shown = await api.post("/api/schedules/preview", {"repeat": {"any": parts[:1]}, "timezone": PARIS, "count": 1})
    assert shown.body["zone"] == PARIS


async def test_gap_fold_anchor_start_and_a_fixed_delay_can_be_said(api: Api) -> None:
    cron = {"cron": "30 2 * * *", "gap": "skip", "fold": "last"}
    assert await stored_rule(api, repeat=cron, timezone=PARIS) == Cron("30 2 * * *", PARIS, gap="skip", fold="last")
    anchored = await stored_rule(api, repeat={"every": "2h", "anchor": "2030-01-01T00:30:00Z"})
    assert isinstance(anchored, Every) and anchored.anchor is not None and anchored.anchor.minute == 30
    assert await stored_rule(api, repeat={"every": "5m", "after": "end"}) == Every("5m", after="end")
    recurring = await stored_rule(api, repeat={"rrule": "FREQ=DAILY", "start": "2030-01-01T07:15:00Z", "fold": "both"})
    assert isinstance(recurring, RRule) and recurring.fold == "both"
    assert recurring.start is not None and (recurring.start.hour, recurring.start.minute) == (7, 15)


@pytest.mark.parametrize(
    "repeat",
    [
        {"every": "5m", "gap": "skip"},
        {"at": ["2030-01-01T00:00:00Z"], "fold": "both"},
        {"cron": "* * * * *", "anchor": "2030-01-01T00:00:00Z"},
        {"cron": "* * * * *", "start": "2030-01-01T00:00:00Z"},
        {"cron": "* * * * *", "then": "next"},
        {"cron": "* * * * *", "any": [{"every": "5m"}]},
        {"any": []},
        {"any": [{"any": [{"every": "5m"}]}]},
        {"any": [{"every": "5m", "after": "end"}, {"every": "1h"}]},
        {"any": [{"cron": "* * * * *", "gap": "before"}]},
    ],
)
async def test_a_rule_that_says_nothing_sensible_is_refused(api: Api, repeat: dict[str, Any]) -> None:
    assert (await api.post("/api/jobs", {**JOB, "repeat": repeat})).status == 422


async def test_the_zone_alone_does_not_change_a_rule_of_parts(api: Api) -> None:
    made = (await api.post("/api/jobs", {**JOB, "repeat": {"any": [{"cron": "0 9 * * *"}, {"every": "1h"}]}})).data
    refused = await api.put(f"/api/jobs/{made['jobId']}", {"timezone": PARIS})
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, "timezone")


async def test_the_last_of_a_debounced_burst_counts(api: Api) -> None:
    first = await api.post("/api/jobs", {**JOB, "data": {"n": 1}, "debounce": "1h", "debounceMax": "2h"})
    key = {"Idempotency-Key": "once"}
    second = await api.post("/api/jobs", {**JOB, "data": {"n": 2}, "debounce": "1h"}, headers=key)
    again = await api.post("/api/jobs", {**JOB, "data": {"n": 2}, "debounce": "1h"}, headers=key)
    assert (first.status, second.status, again.status) == (201, 200, 200)
    assert (
        second.data["jobId"] == again.data["jobId"] == first.data["jobId"]
        and again.headers["idempotency-replayed"] == "true"
    )
    assert (await api.scheduler.get_job(first.data["jobId"])).data == {"n": 2}
    assert [action for action, _ in await actions(api)] == ["job.create", "job.update"]


async def test_the_first_within_a_throttle_counts(api: Api) -> None:
    first = await api.post("/api/jobs", {**JOB, "data": {"n": 1}, "throttle": "1h"})
    second = await api.post("/api/jobs", {**JOB, "data": {"n": 2}, "throttle": "1h"})
    assert (first.status, second.status) == (201, 200) and second.data["jobId"] == first.data["jobId"]
    flow = {"name": "f", "nodes": [{"name": "a", "job": "x"}], "throttle": "1h"}
    assert [(await api.post("/api/flows", flow)).status for _ in range(2)] == [201, 200]


async def test_bursts_of_tenants_do_not_meet(api: Api) -> None:
    one, other = [await keyed(api, "operator", queues=[queue]) for queue in ("a", "b")]
    for option in ("throttle", "debounce"):
        made = [
            (await tenant.post("/api/jobs", {"name": option, "queue": queue, option: "1h"})).data["jobId"]
            for tenant, queue in ((one, "a"), (other, "b"))
        ]
        assert len(set(made)) == 2


@pytest.mark.parametrize("option", ["throttle", "debounce", "debounceMax", "dedupeWindow"])
async def test_a_schedule_has_no_bursts(api: Api, option: str) -> None:
    refused = await api.post("/api/jobs", {**JOB, "every": "1h", option: "1h"})
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, option)


async def test_data_is_encrypted_as_asked(api: Api) -> None:
    body = {**JOB, "data": {"card": "4711", "n": 1}, "encrypt": ["card"]}
    job = await api.scheduler.get_job((await api.post("/api/jobs", body)).data["jobId"])
    assert job.key_ids == ("k1",) and job.data == {"card": "4711", "n": 1}
    everything = (await api.post("/api/jobs", {**body, "encrypt": True})).data["jobId"]
    assert (await api.scheduler.get_job(everything)).encrypted
    made = (await api.post("/api/jobs", {**body, "every": "1h"})).data["jobId"]
    assert (await api.scheduler.schedules.get(made)).kept is not None
    for wrong in ([], ["card", 1], "card"):
        assert (await api.post("/api/jobs", {**body, "encrypt": wrong})).status == 422


async def test_encryption_without_a_key_is_refused(make_scheduler: Make) -> None:
    async with serving(make_scheduler()) as api:
        assert (await api.post("/api/jobs", {**JOB, "data": {"n": 1}, "encrypt": True})).status == 422


async def test_a_webhook_may_have_a_name_and_is_found_by_it(api: Api) -> None:
    hook = {"endpoint": "https://example.com/hook", "name": "billing"}
    made = (await api.post("/api/jobs", hook)).data
    other = (await api.post("/api/jobs", {**JOB, "label": "other"})).data
    assert (made["id"], made["label"], other["label"]) == (made["jobId"], "billing", "other")
    assert (await api.get(f"/api/jobs/{made['id']}")).data["label"] == "billing"
    found = (await api.get("/api/jobs/search?label=billing")).data
    assert [(one["id"], one["name"], one["label"]) for one in found] == [(made["jobId"], "mainspring:http", "billing")]
    same = ("id", "name", "label", "state", "queue", "priority", "tags", "result", "runAt", "createdAt", "finishedAt")
    assert {field: made[field] for field in same} == {field: found[0][field] for field in same}
    scheduled = (await api.post("/api/jobs", {**hook, "every": "1h"})).data
    assert scheduled["label"] == "billing"
    assert (await api.get(f"/api/schedules/{scheduled['jobId']}")).data["label"] == "billing"
    assert (await api.scheduler.schedules.trigger(scheduled["jobId"])).label == "billing"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"endpoint": "https://example.com", "name": "a", "label": "b"}, "label"),
        ({"endpoint": "https://example.com", "name": "mainspring:http"}, "name"),
    ],
)
async def test_a_webhook_has_one_name_that_is_not_mainsprings(api: Api, body: dict[str, Any], field: str) -> None:
    refused = await api.post("/api/jobs", body)
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, field)
