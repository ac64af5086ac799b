"""`mainspring alerts`: the same on a database and on a service."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from api.commands.conftest import Run
from api.conftest import serving
from harness.alerting import CHAT
from harness.sinks import Sink
from mainspring import Scheduler


async def test_a_rule_is_added_changed_silenced_and_deleted(command: Run, scheduler: Scheduler) -> None:
    added = await command("alerts", "add", "Late", "queue_late", "--chat", str(CHAT["url"]), "--after", "10m", "--json")
    rule = added.json
    assert (rule["kind"], rule["after"], rule["status"]) == ("queue_late", "10m", "ok") and "canary" not in added.out
    edited = (await command("alerts", "edit", "Late", "--email", "ops@example.com", "--disable", "--json")).json
    assert [(one["type"], one["to"]) for one in edited["to"]] == [("email", ["ops@example.com"])]
    assert (edited["enabled"], edited["after"]) == (False, "10m")
    shown = await command("alerts", "silence", rule["id"], "--for", "2h", "--reason", "night\x1b[31m")
    assert shown.out.startswith("Late (queue_late") and "Silenced until" in shown.out and "\x1b" not in shown.out
    [row] = (await command("alerts", "list")).rows
    assert row == [rule["id"], "Late", "queue_late", "disabled", "ops@example.com"]
    assert "Silenced" not in (await command("alerts", "silence", "Late", "--off")).out
    assert (await command("alerts", "show", "Late", "--json")).json["id"] == rule["id"]
    assert (await command("alerts", "delete", "Late")).err == "mainspring: The alert rule Late is deleted.\n"
    assert await scheduler.alerts.all() == []
    entries = [row.action for row in await scheduler.audit.find()]
    actions = ["alert.create", "alert.update", "alert.silence", "alert.unsilence", "alert.delete"]
    assert [one for one in reversed(entries) if one.startswith("alert.")] == actions


@pytest.mark.slow
async def test_a_wrong_rule_or_option_is_named(command: Run, scheduler: Scheduler) -> None:
    for _ in range(2):
        await scheduler.alerts.create("Twice", "queue_late", [CHAT])
    wrong = await command("alerts", "show", "Twoce")
    assert (wrong.code, wrong.err) == (3, "mainspring: There is no alert rule 'Twoce'. Did you mean 'Twice'?\n")
    both = await command("alerts", "delete", "Twice")
    assert both.code == 2 and "2 alert rules have the name 'Twice'; give the id: " in both.err
    nowhere = await command("alerts", "add", "Late", "queue_late")
    assert nowhere.code == 2 and "give --email, --webhook or --chat" in nowhere.err
    ops = ("alerts", "add", "Late", "queue_late", "--email", "ops@example.com")
    long = await command(*ops, "--send-in", "q" * 1000)
    assert long.code == 2 and long.err.startswith("mainspring: --send-in: ")
    often = await command(*ops, "--group-window", "often")
    assert often.code == 2 and often.err.startswith("mainspring: --group-window: ")


@pytest.mark.slow
async def test_a_test_message_is_sent_by_the_service_or_the_command_where_no_worker_lives(
    uri: str, bare: Run, make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sink() as sink:
        to = [{"type": "webhook", "url": f"{sink.url}/hook"}]
        await make_scheduler().alerts.create("Late", "queue_late", to)
        monkeypatch.setenv("MAINSPRING_HTTP_ALLOW", "127.0.0.1")
        [told] = (await bare("alerts", "test", "Late", "--json", "--uri", uri)).json
        assert told["arrived"] and told["state"] == "completed", told
        key = (await make_scheduler().api_keys.create("ops", "operator")).text
        async with serving(make_scheduler(), keyless=False, http_allow="127.0.0.1") as api:
            [told] = (await bare("alerts", "test", "Late", "--json", "--url", api.url, "--key", key)).json
        assert told["arrived"] and told["state"] == "completed", told
        assert [json.loads(one.body)["status"] for one in sink.received] == ["test", "test"]


@pytest.mark.slow
async def test_a_test_message_that_does_not_arrive_ends_with_1(command: Run, scheduler: Scheduler) -> None:
    await scheduler.alerts.create("Late", "queue_late", [{"type": "email", "to": ["ops@example.com"]}])
    told = await command("alerts", "test", "Late", "--timeout", "0.1")
    assert told.code == 1 and "pending" in told.out and told.err.startswith("mainspring: A message is pending")
