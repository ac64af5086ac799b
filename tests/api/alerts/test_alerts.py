"""Alert rules over HTTP and on the command line: made, changed, silenced, tested and deleted, within reach, audited."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Api, serving
from harness.sinks import Sink
from harness.waiting import eventually
from mainspring import Every, Scheduler

Make = Callable[..., Scheduler]
CHAT = {"type": "chat", "url": "https://hooks.slack.com/services/T0/B0/canary"}
RULE: dict[str, Any] = {"name": "Dead letters", "kind": "dead_letters", "to": [CHAT], "repeatEvery": "4h"}


async def test_a_rule_is_made_changed_silenced_and_deleted_and_each_is_audited(api: Api) -> None:
    key = {"Idempotency-Key": "one"}
    made = (await api.post("/api/alerts", RULE, headers=key)).data
    again = (await api.post("/api/alerts", RULE, headers=key)).data
    assert again == made and (made["status"], made["repeatEvery"], made["after"]) == ("ok", "4h", "0s")
    assert made["to"][0]["url"] == "https://hooks.slack.com:443/[redacted]"
    path = f"/api/alerts/{made['id']}"
    changed = await api.call("PATCH", path, json={"to": made["to"], "threshold": 5, "repeatEvery": None})
    assert changed.data["threshold"] == 5 and changed.data["repeatEvery"] is None
    silenced = (await api.post(f"{path}/silence", {"duration": "2h", "reason": "migration"})).data
    assert silenced["silence"]["reason"] == "migration"
    assert (await api.post(f"{path}/unsilence")).data["silence"] is None
    assert [one["id"] for one in (await api.get("/api/alerts")).data] == [made["id"]]
    stored = await api.scheduler.alerts.get(made["id"])
    assert stored.to[0].data["request"]["url"] == CHAT["url"]
    assert (await api.delete(path)).data["id"] == made["id"]
    assert (await api.get(path)).status == 404
    rows = await api.scheduler.audit.find(target=made["id"])
    actions = ["alert.create", "alert.update", "alert.silence", "alert.unsilence", "alert.delete"]
    assert [row.action for row in rows][::-1] == actions
    assert "canary" not in repr(rows)


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"kind": "weather"}, 422, "kind"),
        ({"to": [{"type": "chat", "url": "http://127.0.0.1/x"}]}, 422, "to"),
        ({"to": [{"type": "chat", "url": "https://hooks.slack.com/secret://nosuch"}]}, 422, "endpoint"),
        ({"to": [{"type": "chat"}]}, 422, "to"),
        ({"after": 5}, 422, "after"),
        ({"unknown": 1}, 422, "unknown"),
    ],
)
async def test_a_refusal_names_the_field(api: Api, change: dict[str, Any], status: int, field: str) -> None:
    answer = await api.post("/api/alerts", {**RULE, **change})
    assert answer.status == status, answer.text
    assert field in answer.text and (await api.get("/api/alerts")).data == []


async def test_a_key_with_a_scope_makes_and_sees_rules_within_it_only(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    admin = await scheduler.api_keys.create("admin", "admin")
    tenant = await scheduler.api_keys.create("tenant", "operator", queues=["billing"])
    viewer = await scheduler.api_keys.create("viewer", "viewer")
    async with serving(scheduler) as service:
        root, billing, reader = (service.with_key(one.text) for one in (admin, tenant, viewer))
        wide = (await root.post("/api/alerts", RULE)).data
        assert (await billing.post("/api/alerts", RULE)).status == 403  # its job would be in the queue http
        assert (await billing.post("/api/alerts", {**RULE, "queue": "billing", "queues": ["mail"]})).status == 403
        own = (await billing.post("/api/alerts", {**RULE, "queue": "billing"})).data
        assert own["queues"] == ["billing"]
        assert [one["id"] for one in (await billing.get("/api/alerts")).data] == [own["id"]]
        assert len((await root.get("/api/alerts")).data) == 2
        for path in ("", "/silence", "/unsilence", "/test"):
            body = {"duration": "1h"} if path == "/silence" else None
            answer = await billing.call("POST" if path else "GET", f"/api/alerts/{wide['id']}{path}", json=body)
            assert answer.status == 404, path
        moved = await billing.call("PATCH", f"/api/alerts/{own['id']}", json={"queues": ["mail"]})
        assert moved.status == 403
        assert (await reader.post("/api/alerts", RULE)).status == 403
        assert (await service.get("/api/alerts")).status == 401


async def test_the_test_button_sends_without_a_worker_and_shows_the_outcome(make_scheduler: Make) -> None:
    async with serving(make_scheduler(), http_allow="127.0.0.1") as api, Sink() as sink:
        rule = (await api.post("/api/alerts", {**RULE, "to": [{"type": "webhook", "url": f"{sink.url}/hook"}]})).data
        (outcome,) = (await api.post(f"/api/alerts/{rule['id']}/test")).data
        assert outcome["arrived"] and outcome["state"] == "completed", outcome
        assert outcome["to"]["url"].endswith("[redacted]")
        assert json.loads(sink.received[0].body)["status"] == "test"
        (row,) = await api.scheduler.audit.find(action="alert.test")
        assert (row.target, row.after) == (rule["id"], '{"arrived":[true]}')


async def test_a_service_without_a_worker_tells_of_a_missed_firing_during_the_outage(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.client.alerts.watch.EVERY", 0.01)
    scheduler = make_scheduler()
    async with Sink() as sink:
        to = [{"type": "chat", "url": sink.url}]
        await scheduler.alerts.create("ops", "schedule_missed", to, group_window=0, after=0)
        soon = scheduler.now() + timedelta(seconds=0.1)
        await scheduler.schedule("report", repeat=Every("1h", anchor=soon), schedule_id="hourly")
        async with serving(scheduler, http_allow="127.0.0.1"):
            await eventually(lambda: len(sink.received) == 1)
    assert "The schedule 'hourly' should have fired" in json.loads(sink.received[0].body)["text"]


async def test_a_key_with_a_scope_has_a_bounded_number_of_rules(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    tenant = await scheduler.api_keys.create("tenant", "operator", queues=["billing"])
    for number in range(20):
        await scheduler.alerts.create(f"rule {number}", "queue_late", [CHAT], queues=["billing"])
    async with serving(scheduler) as service:
        answer = await service.with_key(tenant.text).post("/api/alerts", {**RULE, "queue": "billing"})
    assert answer.status == 409 and "at most 20 alert rules" in answer.text
