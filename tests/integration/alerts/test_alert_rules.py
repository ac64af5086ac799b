"""Alert rules: each kind tells once that its problem began and once that it is over, whichever process evaluates."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.alerting import CHAT, look, messages, rule_of, text_of
from harness.dead import dead_letter
from harness.inside import inside
from harness.listening import Listener
from harness.looking import Database
from harness.sinks import Sink, reply
from mainspring import AlertRuleNotFound, ConfigurationError, Every, Scheduler
from mainspring.api.settings import ServiceSettings
from mainspring.client.alerts.watch import AlertWatch
from mainspring.client.outgoing.builtin_jobs import add_builtin_handlers
from mainspring.clock import ManualClock
from mainspring.engine.alerts.evaluation import evaluate
from mainspring.engine.chores.upkeep.evaluate_alerts import SELDOM
from mainspring.errors import Unavailable

Make = Callable[..., Scheduler]
LOCAL: dict[str, Any] = {"http_allow": "127.0.0.1"}
HOSTILE = "{{data.x}} secret://token <!channel> \x1b[31m\r\nSubject: x\u202e" + "y" * 5000


def every_text(value: Any) -> list[str]:
    """All texts in plain data."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in every_text(one)]
    if isinstance(value, list):
        return [text for one in value for text in every_text(one)]
    return [value] if isinstance(value, str) else []


# -- what is told ------------------------------------------------------------------------------------------------------

Cause = Callable[[Scheduler, ManualClock, Database], Awaitable[Callable[[], Awaitable[Any]]]]


async def dead(scheduler: Scheduler, clock: ManualClock, db: Database) -> Callable[[], Awaitable[Any]]:
    await db.jobs.insert_one(dead_letter(clock.now()))

    async def pass_by() -> None:
        clock.advance(901)

    return pass_by


async def missed(scheduler: Scheduler, clock: ManualClock, db: Database) -> Callable[[], Awaitable[Any]]:
    schedule = await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly")
    clock.advance(timedelta(hours=1, minutes=3))
    return schedule.delete


async def late(scheduler: Scheduler, clock: ManualClock, db: Database) -> Callable[[], Awaitable[Any]]:
    job = await scheduler.schedule("report")
    clock.advance(301)
    return job.cancel


async def alone(scheduler: Scheduler, clock: ManualClock, db: Database) -> Callable[[], Awaitable[Any]]:
    await look(scheduler)  # that no worker is alive counts from the first look on
    clock.advance(61)

    async def arrive() -> None:
        await db["jobs.workers"].insert_one({"_id": "w", "beat_at": clock.now(), "queues": None})

    return arrive


async def broken(scheduler: Scheduler, clock: ManualClock, db: Database) -> Callable[[], Awaitable[Any]]:
    await scheduler.limits.open_breaker(name="report")

    async def close() -> None:
        await scheduler.limits.close_breaker(name="report")

    return close


@pytest.mark.parametrize(
    ("kind", "cause", "told"),
    [
        ("dead_letters", dead, "A job of 'work' in the queue 'default' failed for good, the last with ValueError"),
        ("schedule_missed", missed, "The schedule 'hourly' should have fired 3 minutes ago."),
        ("queue_late", late, "The oldest due job of the queue 'default' has waited for 5 minutes 1 second."),
        ("no_worker", alone, "No worker is alive, so no jobs run."),
        ("breaker_open", broken, "The breaker of the job 'report' is open"),
    ],
)
async def test_each_kind_tells_once_that_it_began_and_once_that_it_is_over(
    timed: Scheduler, clock: ManualClock, db: Database, kind: str, cause: Cause, told: str
) -> None:
    rule = await rule_of(timed, kind)
    await look(timed)
    assert await messages(db) == []
    cure = await cause(timed, clock, db)
    for _ in range(3):
        await look(timed)
    assert await messages(db) == ["[Mainspring] FIRING: ops"]
    job = await db.jobs.find_one({"alert": True}, hint="_id_")
    assert job is not None and told in text_of(job).replace("&lt;", "<")
    assert (await timed.alerts.get(rule.id)).state.status == "firing"
    await cure()
    for _ in range(3):
        clock.advance(1)
        await look(timed)
    assert await messages(db) == ["[Mainspring] FIRING: ops", "[Mainspring] RESOLVED: ops"]
    assert (await timed.alerts.get(rule.id)).state.status == "ok"


async def test_subjects_within_the_window_share_a_message_and_an_alert_that_goes_on_is_told_again(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "breaker_open", group_window="1m", repeat_every="1h")
    await timed.limits.open_breaker(name="a")
    await look(timed)
    clock.advance(59)
    await timed.limits.open_breaker(name="b")
    await look(timed)
    assert await messages(db) == []
    clock.advance(1)
    await look(timed)
    (job,) = [one async for one in db.jobs.find({"alert": True}, hint="_id_")]
    assert "'a'" in text_of(job) and "'b'" in text_of(job)
    clock.advance(3599)
    await look(timed)
    assert len(await messages(db)) == 1
    clock.advance(1)
    await look(timed)
    assert await messages(db) == ["[Mainspring] FIRING: ops", "[Mainspring] STILL FIRING: ops"]


async def test_a_silence_holds_messages_back_and_its_end_tells_what_is_true_then(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    rule = await rule_of(timed, "breaker_open")
    silenced = await timed.alerts.silence(rule.id, "1h", reason="migration", actor="ops")
    assert silenced.silence is not None and silenced.silence.reason == "migration"
    await timed.limits.open_breaker(name="short")
    await look(timed)
    await timed.limits.close_breaker(name="short")
    await timed.limits.open_breaker(name="long")
    await look(timed)
    assert await messages(db) == []
    clock.advance(timedelta(hours=1))
    await look(timed)
    (job,) = [one async for one in db.jobs.find({"alert": True}, hint="_id_")]
    assert "'long'" in text_of(job) and "'short'" not in text_of(job)
    with pytest.raises(ConfigurationError, match="future"):
        await timed.alerts.silence(rule.id, clock.now())


async def test_a_hostile_error_neither_breaks_a_message_nor_marks_it_up(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    url = "https://hook.example.com/x"
    to: list[dict[str, Any]] = [CHAT, {"type": "webhook", "url": url}, {"type": "email", "to": ["ops@example.com"]}]
    await timed.alerts.create("ops", "dead_letters", to, group_window=0)
    await db.jobs.insert_one(dead_letter(clock.now(), error={"type": "E", "message": HOSTILE}))
    await look(timed)
    jobs = [one async for one in db.jobs.find({"alert": True}, hint="_id_")]
    assert len(jobs) == 3
    texts = [text for job in jobs for text in every_text(job["data"])]
    assert not [text for text in texts if any(one in text for one in "\x1b\u202e\r") or len(text) > 1000]
    hooks = [one["data"]["request"] for one in jobs if "request" in one["data"]]
    assert [one["templates"] for one in hooks] == [False, False]
    assert any("&lt;!channel&gt;" in str(one["data"]) for one in jobs)
    (mail,) = [one for one in jobs if one["name"] == "mainspring:email"]
    assert "\n" not in mail["data"]["subject"] and "{{data.x}}" in mail["data"]["text"]


async def test_a_message_that_could_not_be_sent_causes_no_alert_about_itself(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    rule = await rule_of(timed, "dead_letters")
    await db.jobs.insert_one(dead_letter(clock.now(), name="mainspring:http", alert=True))
    await look(timed)
    assert (await timed.alerts.get(rule.id)).state.status == "ok"


# -- once only ---------------------------------------------------------------------------------------------------------


class Flaky:
    """Loses replies and requests of some operations of a collection, by a coin of its own."""

    def __init__(self, collection: Any, name: str, dice: random.Random, patch: pytest.MonkeyPatch) -> None:
        self._inner = getattr(collection, name)
        self._dice = dice
        patch.setattr(collection, name, self)

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        fate = self._dice.random()
        if fate < 0.25:
            raise Unavailable("the request was lost")
        outcome = await self._inner(*arguments, **options)
        await asyncio.sleep(0)
        if fate < 0.5:
            raise Unavailable("the reply was lost")
        return outcome


@pytest.mark.slow
async def test_several_evaluations_and_lost_replies_send_each_message_once(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, dice = ManualClock(), random.Random(7)
    evaluators = [await make_scheduler(clock=clock).connect() for _ in range(3)]
    await rule_of(evaluators[0], "breaker_open")
    for one in evaluators:
        connection = inside(one).open_store.connection
        Flaky(connection.alert_rules, "replace_one", dice, monkeypatch)
        Flaky(connection.jobs, "insert_many", dice, monkeypatch)

    async def evaluate_all() -> None:
        for _ in range(8):
            clock.advance(1)
            await asyncio.gather(*map(look, evaluators), return_exceptions=True)

    told = []
    for _ in range(4):
        await evaluators[0].limits.open_breaker(name="report")
        await evaluate_all()
        await evaluators[0].limits.close_breaker(name="report")
        await evaluate_all()
        told += ["[Mainspring] FIRING: ops", "[Mainspring] RESOLVED: ops"]
    assert await messages(db) == told


async def test_an_evaluation_that_was_held_up_does_not_undo_what_others_decided(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    slow, quick = [await make_scheduler(clock=clock).connect() for _ in range(2)]
    await rule_of(quick, "breaker_open")
    rules = inside(slow).open_store.alert_rules
    reached, goes_on, advance = asyncio.Event(), asyncio.Event(), rules.advance

    async def held_up(*arguments: Any) -> Any:
        reached.set()
        await goes_on.wait()
        return await advance(*arguments)

    monkeypatch.setattr(rules, "advance", held_up)
    await quick.limits.open_breaker(name="report")
    late_one = asyncio.create_task(look(slow))
    await reached.wait()
    await look(quick)
    await quick.limits.close_breaker(name="report")
    clock.advance(1)
    await look(quick)
    goes_on.set()
    await late_one
    await quick.limits.open_breaker(name="report")
    clock.advance(1)
    await look(quick)
    words = ("FIRING", "RESOLVED", "FIRING")
    assert await messages(db) == [f"[Mainspring] {word}: ops" for word in words]


# -- sending -----------------------------------------------------------------------------------------------------------


async def test_without_a_worker_the_service_alone_tells_of_a_missed_firing(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = await make_scheduler(clock=clock).connect()
    watch = AlertWatch(scheduler, ServiceSettings(**LOCAL))
    async with Sink(answers=[reply(503), reply(200)]) as sink:
        to = [{"type": "chat", "url": f"{sink.url}/hook"}]
        rule = await scheduler.alerts.create("ops", "schedule_missed", to, group_window=0)
        await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly")
        clock.advance(timedelta(hours=1, minutes=3))
        await watch.look()
        assert len(sink.received) == 1
        await watch.look()
        assert len(sink.received) == 1  # the next attempt is not due yet
        clock.advance(60)
        await watch.look()
        clock.advance(60)
        await watch.look()
    assert [json.loads(one.body)["text"].splitlines()[0] for one in sink.received] == ["[Mainspring] FIRING: ops"] * 2
    (job_id,) = (await scheduler.alerts.get(rule.id)).state.jobs
    job = await scheduler.get_job(job_id)
    assert job.state == "completed" and [one.outcome for one in job.attempts] == ["retried", "completed"]
    assert await scheduler.workers.all() == []
    await watch._courier.close()


async def test_a_message_that_a_service_began_before_it_died_is_sent_by_the_next_one(
    make_scheduler: Make, db: Database
) -> None:
    clock = ManualClock()
    scheduler = await make_scheduler(clock=clock).connect()
    watch = AlertWatch(scheduler, ServiceSettings(**LOCAL))
    async with Sink() as sink:
        to = [{"type": "chat", "url": sink.url}]
        await scheduler.alerts.create("ops", "breaker_open", to, group_window=0)
        await scheduler.limits.open_breaker(name="report")
        await look(scheduler)
        claim = {"state": "running", "claim": "c", "worker": "alerts@gone", "token": 1, "tries": 1, "rev": 1}
        lease = {"claimed_at": clock.now(), "lease_until": clock.now() + timedelta(seconds=120), "max_attempts": 8}
        await db.jobs.update_one({"alert": True}, {"$set": {**claim, **lease}, "$unset": {"ready": ""}}, hint="_id_")
        await watch.look()
        assert sink.received == []
        clock.advance(121)
        await watch.look()
    assert len(sink.received) == 1
    await watch._courier.close()


async def test_a_worker_evaluates_and_sends_and_a_test_tells_its_outcome(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    add_builtin_handlers(scheduler, ServiceSettings(**LOCAL))
    await scheduler.start()
    async with Sink(answers=[reply(404), reply(200)]) as sink:
        rule = await scheduler.alerts.create("ops", "breaker_open", [{"type": "webhook", "url": sink.url}])
        (refused,) = await scheduler.alerts.test(rule.id)
        (arrived,) = await scheduler.alerts.test(rule.id)
        assert (refused.arrived, refused.state) == (False, "failed") and "404" in (refused.error or "")
        assert arrived.arrived and json.loads(sink.received[1].body)["status"] == "test"
        assert (await scheduler.alerts.get(rule.id)).state.messages == 0


async def test_a_secret_path_reaches_the_chat_and_no_reader(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys={"a": b"k" * 32})
    add_builtin_handlers(scheduler, ServiceSettings(**LOCAL))
    await scheduler.start()
    async with Sink() as sink:
        await scheduler.secrets.put("chat", "services/T0/canary-of-the-path", origins=[sink.url])
        rule = await scheduler.alerts.create("ops", "no_worker", [{"type": "chat", "url": f"{sink.url}/secret://chat"}])
        (outcome,) = await scheduler.alerts.test(rule.id)
        assert outcome.arrived, outcome
        assert sink.received[0].path == "/services/T0/canary-of-the-path"
        job = await scheduler.get_job(outcome.job_id)
        assert "canary" not in repr((job, outcome, rule, rule.to[0].shown))
    assert not [one async for one in db.jobs.find({}, hint="_id_") if "canary" in str(one)]


async def test_without_rules_an_evaluation_is_one_read_of_an_empty_collection(uri: str, make_scheduler: Make) -> None:
    heard = Listener()
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True, event_listeners=[heard]) as client:
        scheduler = make_scheduler(client=client)
        store = await inside(scheduler).store()
        heard.clear()
        await evaluate(store)
        assert [next(iter(one.items())) for one in heard.commands] == [("find", "jobs.alert_rules")]
        await scheduler.stop()
    assert SELDOM >= 30


# -- rules -------------------------------------------------------------------------------------------------------------


async def test_a_rule_is_edited_with_its_hidden_values_kept_and_begins_anew_if_it_watches_something_else(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    rule = await rule_of(timed, "breaker_open")
    shown = rule.to[0].shown
    assert shown == {"type": "chat", "url": "https://chat.example.com:443/[redacted]"}
    await timed.limits.open_breaker(name="report")
    await look(timed)
    mail = {"type": "email", "to": ["ops@example.com"]}
    edited = await timed.alerts.edit(rule.id, name="other", to=[mail, shown], repeat_every="4h")
    assert edited.to[1] == rule.to[0] and edited.state.status == "firing" and edited.repeat_every == 4 * 3600
    elsewhere = await timed.alerts.edit(rule.id, queues=["mail"])
    assert elsewhere.state.status == "ok" and elsewhere.state.messages == 1
    assert [one.id for one in await timed.alerts.all()] == [rule.id]
    await timed.alerts.delete(rule.id)
    with pytest.raises(AlertRuleNotFound, match="There is no alert rule"):
        await timed.alerts.get(rule.id)


async def test_a_webhook_whose_headers_are_edited_keeps_its_hidden_values(timed: Scheduler) -> None:
    hook = {"type": "webhook", "url": "https://a.example.com/canary", "headers": {"X-Key": "canary", "X-Team": "a"}}
    rule = await timed.alerts.create("ops", "no_worker", [hook])
    shown = rule.to[0].shown
    assert shown["headers"] == {"X-Key": "[redacted]", "X-Team": "[redacted]"}
    edited = await timed.alerts.edit(rule.id, to=[{**shown, "headers": {"X-Key": "[redacted]", "X-Team": "b"}}])
    request = edited.to[0].data["request"]
    assert request["url"] == "https://a.example.com/canary"
    assert request["headers"] == {"X-Key": "canary", "X-Team": "b"}
    for there in ({**shown, "url": "https://evil.example.com/"}, {**shown, "type": "chat", "headers": None}):
        with pytest.raises(ConfigurationError, match="stands for a hidden value"):
            await timed.alerts.edit(rule.id, to=[{name: one for name, one in there.items() if one}])


async def test_destinations_that_look_the_same_stay_apart(timed: Scheduler) -> None:
    chats = [{"type": "chat", "url": f"https://chat.example.com/{room}"} for room in ("first", "second")]
    rule = await timed.alerts.create("ops", "no_worker", chats)
    edited = await timed.alerts.edit(rule.id, to=[one.shown for one in rule.to])
    assert edited.to == rule.to


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kind": "weather"}, "one of dead_letters"),
        ({"to": []}, "1 to 5 destinations"),
        ({"to": [{"type": "pigeon"}]}, "one of email, webhook, chat"),
        ({"to": [{"type": "email", "to": ["nobody"]}]}, "email destination"),
        ({"to": [{"type": "chat", "url": "ftp://x"}]}, "http"),
        ({"to": [{"type": "chat", "url": "https://x/a?k=secret://a"}]}, "whole path"),
        ({"after": "5m"}, "counts at once"),
        ({"repeat_every": 1}, "at least 60 s"),
        ({"threshold": 0}, "threshold"),
        ({"frequency": 1}, "has no option 'frequency'"),
    ],
)
async def test_a_rule_that_makes_no_sense_is_refused_with_the_reason(
    timed: Scheduler, options: dict[str, Any], why: str
) -> None:
    given: dict[str, Any] = {"kind": "dead_letters", "to": [CHAT], **options}
    with pytest.raises(ConfigurationError, match=why):
        await timed.alerts.create("ops", given.pop("kind"), given.pop("to"), **given)
