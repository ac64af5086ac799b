"""The conditions of alert rules: what counts for each kind, within the scope of the rule, and what does not."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from harness.alerting import look, messages, rule_of, texts
from harness.dead import dead_letter, dead_letters
from harness.inside import inside
from harness.looking import Database
from mainspring import ConfigurationError, Every, Scheduler
from mainspring.clock import ManualClock
from mainspring.store.codec import document_id

FIRING, RESOLVED = "[Mainspring] FIRING: ops", "[Mainspring] RESOLVED: ops"


async def worker(db: Database, clock: ManualClock, **fields: Any) -> None:
    """A live worker of another process."""
    await db["jobs.workers"].insert_one({"_id": "w", "beat_at": clock.now(), "queues": None, **fields})


async def fill(scheduler: Scheduler, number: int) -> list[str]:
    """A due job in each of so many queues; returns their names."""
    queues = [f"a{one:03}" for one in range(number)]
    await scheduler.schedule_bulk([{"name": "report", "queue": queue} for queue in queues])
    return queues


# -- within the scope of a rule ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [{}, {"queues": ["billing"]}, {"prefixes": ["invoice."]}])
async def test_many_dead_letters_elsewhere_do_not_hide_one(
    timed: Scheduler, clock: ManualClock, db: Database, scope: dict[str, Any]
) -> None:
    await rule_of(timed, "dead_letters", threshold=2, **scope)
    early = clock.now() - timedelta(minutes=10)
    for number in range(2):
        await db.jobs.insert_one(dead_letter(early, number, name="invoice.send", queue="billing"))
    await db.jobs.insert_one(dead_letter(early, name="invoice.print", queue="billing"))
    await db.jobs.insert_many(dead_letters(400, clock.now()))
    await look(timed)
    (text,) = await texts(db)
    assert "2 jobs of 'invoice.send' in the queue 'billing' failed for good" in text
    assert "invoice.print" not in text and ("400 jobs of 'work'" in text) is (scope == {})


async def test_a_threshold_that_no_read_can_reach_is_refused(timed: Scheduler) -> None:
    with pytest.raises(ConfigurationError, match="threshold must be a whole number from 1 to 150"):
        await rule_of(timed, "dead_letters", threshold=151)


@pytest.mark.parametrize("scope", [{}, {"queues": ["billing"]}, {"prefixes": ["invoice."]}])
async def test_many_overdue_schedules_elsewhere_do_not_hide_one(
    timed: Scheduler, clock: ManualClock, db: Database, scope: dict[str, Any]
) -> None:
    await rule_of(timed, "schedule_missed", **scope)
    for number in range(60):
        await timed.schedule("report", repeat=Every("1h"), schedule_id=f"report-{number}")
    clock.advance(60)
    await timed.schedule("invoice.send", repeat=Every("1h"), schedule_id="invoices", queue="billing")
    clock.advance(timedelta(hours=1, minutes=3))
    await look(timed)
    (text,) = await texts(db)
    told = "The schedule 'invoices' should have fired 3 minutes ago."
    assert (told in text, "report-" in text) == ((False, True) if scope == {} else (True, False))
    assert ("and 41 more" in text) is (scope == {})


async def test_many_open_breakers_elsewhere_do_not_hide_one(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    await rule_of(timed, "breaker_open", queues=["billing"])
    for number in range(60):
        await timed.limits.open_breaker(queue=f"q{number}", reason="the supplier is down")
    clock.advance(1)
    await timed.limits.open_breaker(queue="billing", reason="the supplier is down")
    await look(timed)
    (text,) = await texts(db)
    assert "The breaker of the queue 'billing' is open." in text, "and the operator's reason is not for a scope"
    assert "supplier" not in text and "'q1'" not in text


async def test_a_rule_without_a_scope_tells_the_reason_of_an_open_breaker(timed: Scheduler, db: Database) -> None:
    await rule_of(timed, "breaker_open")
    await timed.limits.open_breaker(queue="billing", reason="the supplier is down")
    await look(timed)
    assert "The breaker of the queue 'billing' is open: the supplier is down" in (await texts(db))[0]


async def test_every_queue_is_looked_at_however_many_there_are(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "queue_late")
    await rule_of(timed, "no_worker", after=0)
    await timed.schedule("report", queue="z", priority=9)
    clock.advance(timedelta(minutes=4))
    served = await fill(timed, 120)
    await timed.schedule("report", queue="z", priority=1)
    clock.advance(timedelta(minutes=1))
    await worker(db, clock, queues=served)
    await look(timed)
    late, unserved = sorted(await texts(db), key=lambda text: "No live worker" in text)
    assert "The oldest due job of the queue 'z' has waited for 5 minutes." in late and "'a0" not in late
    assert "No live worker serves the queue 'z'" in unserved and "'a0" not in unserved


async def test_a_rule_by_names_sees_a_late_job_of_any_queue(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    await rule_of(timed, "queue_late", prefixes=["invoice."])
    await fill(timed, 40)
    clock.advance(60)
    await timed.schedule("invoice.send", queue="z")
    clock.advance(300)
    await look(timed)
    assert ["'z'" in text and "'a0" not in text for text in await texts(db)] == [True]


async def test_no_paused_queue_is_late_however_many_are_paused(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "queue_late")
    for number in range(101):
        await timed.queues.pause(f"q{number:03}")
    await timed.schedule("report", queue="q100")
    clock.advance(600)
    await look(timed)
    assert await messages(db) == []


async def test_a_name_without_a_handler_is_told_while_its_jobs_are_held(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "no_worker", after=0)
    await worker(db, clock, handlers=["other"])
    store = await inside(timed).store()
    for number in range(12):
        job = await timed.schedule(f"report-{number:02}")
        assert await store.upkeep.hold([document_id(job.id)], "handler", "No worker has a handler.") == 1
    await look(timed)
    (text,) = await texts(db)
    assert "No live worker has a handler for 'report-11'; 1 job waits for one." in text


# -- what does not count -----------------------------------------------------------------------------------------------


async def test_a_paused_queue_is_not_late_and_a_paused_schedule_is_not_missed(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "queue_late")
    await rule_of(timed, "schedule_missed")
    await timed.schedule("report", queue="slow")
    await timed.queues.pause("slow")
    await timed.schedule("report", repeat=Every("1h"), schedule_id="hourly")
    await timed.schedules.pause("hourly")
    clock.advance(timedelta(hours=2))
    await look(timed)
    assert await messages(db) == []
    await timed.queues.resume("slow")
    await look(timed)
    assert await messages(db) == [FIRING]


async def test_a_queue_whose_jobs_wait_at_a_limit_is_late_and_one_whose_jobs_are_paused_is_not(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "queue_late")
    waiting = {"waiting_for": {"by": "limit", "note": "", "since": clock.now()}}
    for line in ("p:name:report", "c:name:report"):
        await timed.schedule("report", queue="slow")
        await db.jobs.update_one({"ready": True}, {"$set": waiting | {"line": line}, "$unset": {"ready": ""}})
        clock.advance(timedelta(hours=1))
        await look(timed)
        assert await messages(db) == ([] if line.startswith("p") else [FIRING])


async def test_a_late_job_at_a_limit_is_told_however_many_queues_wait(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "queue_late")
    await timed.schedule("report", queue="z")
    clock.advance(timedelta(hours=1))
    await fill(timed, 60)
    waiting = {"waiting_for": {"by": "limit", "note": "", "since": clock.now()}, "line": "c:name:report"}
    await db.jobs.update_many({"ready": True}, {"$set": waiting, "$unset": {"ready": ""}})
    await look(timed)
    (text,) = await texts(db)
    assert "'z'" in text and "'a0" not in text


@pytest.mark.parametrize(
    ("kind", "after"), [("schedule_missed", 120), ("queue_late", 300), ("breaker_open", 90), ("no_worker", 60)]
)
async def test_a_condition_counts_once_it_has_held_for_the_time_of_the_rule(
    timed: Scheduler, clock: ManualClock, db: Database, kind: str, after: int
) -> None:
    await rule_of(timed, kind, **({"after": after} if kind == "breaker_open" else {}))
    if kind == "schedule_missed":
        await timed.schedule("report", repeat=Every("1h"), schedule_id="hourly")
        clock.advance(3600)
    elif kind == "queue_late":
        await timed.schedule("report")
    elif kind == "breaker_open":
        await timed.limits.open_breaker(name="report")
    await look(timed)
    clock.advance(after - 1)
    await look(timed)
    assert await messages(db) == []
    clock.advance(1)
    await look(timed)
    assert await messages(db) == [FIRING]


async def test_with_queues_each_of_them_that_no_live_worker_serves_is_told(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "no_worker", queues=["mail", "billing"], after=0)
    await worker(db, clock, queues=["mail", "other"])
    await look(timed)
    (text,) = await texts(db)
    assert "No live worker serves the queue 'billing'." in text and "'mail'" not in text


async def test_a_due_job_without_a_handler_or_a_worker_for_its_queue_counts_though_a_worker_is_alive(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "no_worker", after=0)
    await worker(db, clock, queues=["mail"])
    await look(timed)
    assert await messages(db) == []
    await timed.schedule("report", queue="billing")
    await look(timed)
    assert "billing" in (await texts(db))[0]


# -- the course of an alert --------------------------------------------------------------------------------------------


async def test_the_end_of_a_silence_tells_that_an_alert_which_was_told_before_is_over(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    rule = await rule_of(timed, "breaker_open")
    await timed.limits.open_breaker(name="report")
    await look(timed)
    await timed.alerts.silence(rule.id, "1h")
    await timed.limits.close_breaker(name="report")
    await look(timed)
    assert await messages(db) == [FIRING]
    clock.advance(timedelta(hours=1))
    await look(timed)
    assert await messages(db) == [FIRING, RESOLVED]
    assert "'report'" in (await texts(db))[1], "it says what is over"


async def test_what_has_held_during_a_silence_for_the_time_of_the_rule_is_told_at_its_end(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    rule = await rule_of(timed, "no_worker", after="5m")
    await timed.alerts.silence(rule.id, "1h")
    await look(timed)
    clock.advance(timedelta(hours=1))
    await look(timed)
    assert await messages(db) == [FIRING]


async def test_an_alert_is_over_only_when_its_problem_has_been_gone_for_the_window(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "breaker_open", group_window="1m")
    await timed.limits.open_breaker(name="report")
    await look(timed)
    clock.advance(60)
    await look(timed)
    for _ in range(3):  # it comes and goes: that is one alert, not six messages
        await timed.limits.close_breaker(name="report")
        await look(timed)
        clock.advance(59)
        await look(timed)
        await timed.limits.open_breaker(name="report")
        await look(timed)
    assert await messages(db) == [FIRING]
    await timed.limits.close_breaker(name="report")
    await look(timed)
    clock.advance(60)
    await look(timed)
    assert await messages(db) == [FIRING, RESOLVED]


async def test_a_rule_may_send_no_message_at_the_end_and_a_disabled_one_sends_none_at_all(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await rule_of(timed, "breaker_open", send_resolved=False)
    off = await rule_of(timed, "breaker_open", enabled=False)
    await timed.limits.open_breaker(name="report")
    await look(timed)
    await timed.limits.close_breaker(name="report")
    clock.advance(1)
    await look(timed)
    assert await messages(db) == [FIRING]
    assert (await timed.alerts.get(off.id)).state.messages == 0


async def test_a_rule_that_cannot_be_evaluated_does_not_silence_the_others(
    timed: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = await timed.alerts.create("broken", "dead_letters", [{"type": "email", "to": ["a@b.c"]}], rule_id="a")
    await rule_of(timed, "breaker_open", rule_id="b")
    await timed.limits.open_breaker(name="report")

    async def unreadable(*arguments: Any) -> Any:
        raise ValueError("a document of another program")

    monkeypatch.setattr(inside(timed).open_store.alert_facts, "causes", unreadable)
    with caplog.at_level(logging.ERROR, "mainspring"):
        await look(timed)
    assert await messages(db) == [FIRING]
    assert f"The alert rule {broken.id} cannot be evaluated" in caplog.text
