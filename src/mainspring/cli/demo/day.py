"""The demonstration's day: what a scheduler that has been in use looks like, stored once in an empty database.

Schedules, pauses, a limit with jobs that wait, a breaker, jobs for later, flows and a calendar are made by the public
verbs. The past is written by `cli/demo/history.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from mainspring.cli.demo.flows import start_flows
from mainspring.cli.demo.history import write_history
from mainspring.client.scheduler import Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.client.views.past import PastBackend
from mainspring.model.access.audit import Entry
from mainspring.model.fields import Fields
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.model.limits.breaker import OPEN
from mainspring.rules import Every, Except, RRule, Rule
from mainspring.rules.calendars.calendar import Calendar
from mainspring.rules.cron import Cron

ACTOR = "demonstration"
PARTNERS = "partners"
"""The queue of the demonstration's webhooks. It is paused: nothing is sent unless a person resumes it, and the target
is on this machine."""
GATEWAY = "slow-gateway.example.com"
_HOOK = "http://127.0.0.1:9/hooks/orders"
_PAUSED, _LIMITED = "rebuild-search-index", "generate-report"
# So that their firings of yesterday can be computed.
_MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
_CUSTOMERS = ("acme", "harbour-books", "north-cycles")
_HOLIDAYS = Calendar(
    yearly=["01-01", "05-01", "12-24", "12-25", "12-26"], description="Days on which the office is closed"
)

# The id of a schedule is its job's name. The zones change their clocks at different nights, or not at all.
SCHEDULES: Mapping[str, tuple[Rule, Fields]] = {
    "nightly-backup": (Cron("30 2 * * *", "Europe/Berlin"), {}),
    "renew-certificates": (Cron("15 1 * * *", "America/Santiago"), {}),
    "clean-sessions": (Cron("0 * * * *"), {}),
    "rebuild-search-index": (Cron("45 1 * * 0", "Europe/Paris"), {}),
    "sync-inventory": (Every("15m", anchor=_MIDNIGHT), {"warehouse": "W1"}),
    "exchange-rates": (Cron("5 * * * *"), {"base": "EUR"}),
    "probe-health": (Cron("*/5 6-21 * * *"), {}),
    "import-feed": (Cron("10,40 * * * *"), {"supplier": "parts.example.com"}),
    "morning-digest": (Cron("0 8 * * 1-5", "America/New_York"), {}),
    "weekly-report": (Cron("0 9 * * 1", "Australia/Sydney"), {}),
    "invoice-run": (Cron("0 6 1 * *", "Europe/London"), {}),
    "quarter-close": (
        RRule("FREQ=MONTHLY;INTERVAL=3;BYDAY=-1FR;BYHOUR=18;BYMINUTE=0;BYSECOND=0", "America/Los_Angeles"),
        {},
    ),
    "payroll-export": (Except(Cron("0 7 25 * *", "Europe/Berlin"), "holidays", then="previous"), {}),
}


async def seed_day(scheduler: Scheduler) -> bool:
    """Store the day unless the database has jobs or schedules already; returns whether it was stored."""
    past = PastBackend(scheduler)
    if not await past.is_empty():
        return False
    now = scheduler.now()
    await _make_schedules(scheduler, past, now)
    await write_history(scheduler, past, tuple(SCHEDULES), now)
    await _make_later(scheduler, now)
    await _make_limited(scheduler)
    await _make_trouble(scheduler)
    await start_flows(scheduler)
    await _note_changes(scheduler)
    return True


async def _make_schedules(scheduler: Scheduler, past: PastBackend, now: datetime) -> None:
    await scheduler.calendars.put("holidays", _HOLIDAYS, actor=ACTOR)
    for name, (rule, data) in SCHEDULES.items():
        await scheduler.schedule(name, data, repeat=rule, schedule_id=name, tags=["demonstration"])
        await past.backdate_schedule(name, now - timedelta(days=1))
    await scheduler.schedules.pause(_PAUSED, "The index is being moved to the new cluster until Friday.", actor=ACTOR)


async def _make_later(scheduler: Scheduler, now: datetime) -> None:
    """Jobs for the coming hours and days."""
    later: list[Fields] = [
        {
            "name": "send-email",
            "data": {"to": f"customer{number}@example.com", "subject": "Your order is on its way"},
            "run_at": now + timedelta(hours=2 + 3 * number),
            "tags": ["order"],
        }
        for number in range(12)
    ]
    year = {"name": "generate-report", "data": {"kind": "year"}, "run_at": now + timedelta(days=3), "priority": 8}
    await scheduler.schedule_bulk([*later, year])
    await scheduler.operations.create(
        "set_priority",
        {"name": "send-email", "tag": "order"},
        priority=3,
        reason="Customers wait for these.",
        actor=ACTOR,
    )


async def _make_limited(scheduler: Scheduler) -> None:
    """Jobs that wait for a limit: one at a time for each customer."""
    await scheduler.schedule_bulk(
        [
            {"name": "resize-image", "data": {"customer": customer, "image": f"product-{2000 + number}.jpg"}}
            for customer, count in zip(_CUSTOMERS, (60, 25, 10), strict=True)
            for number in range(count)
        ]
    )


async def _make_trouble(scheduler: Scheduler) -> None:
    """A paused queue with webhooks in it, and an open breaker with payments behind it."""
    await scheduler.queues.pause(PARTNERS, reason="The partner's system is in maintenance.", actor=ACTOR)
    await scheduler.limits.open_breaker(
        name="charge-card",
        key={"gateway": GATEWAY},
        open_for="6h",
        reason="21 of 26 payments failed within five minutes.",
        actor=ACTOR,
    )
    await scheduler.limits.set(name=_LIMITED, concurrency=2, reason="The database of reports is slow.", actor=ACTOR)
    await scheduler.schedule_bulk([_webhook(7400 + number) for number in range(18)])
    await scheduler.schedule_bulk([_payment(7250 + number) for number in range(9)])


def _webhook(order: int) -> Fields:
    request = {"url": _HOOK, "method": "POST", "body": {"order": f"O-{order}", "status": "shipped"}}
    data = {"request": request, "data": {}, "target": "http://127.0.0.1:9"}
    return {"name": HTTP, "data": data, "queue": PARTNERS, "tags": ["webhook"]}


def _payment(order: int) -> Fields:
    return {"name": "charge-card", "data": {"order": f"O-{order}", "amount": f"{order / 100:.2f}", "gateway": GATEWAY}}


async def _note_changes(scheduler: Scheduler) -> None:
    """Write the changes above to the audit log, as the service does with those of its callers."""
    made = [
        Entry(ACTOR, "schedule.create", name, after={"name": name, "repeat": rule.to_document(), "data": data})
        for name, (rule, data) in SCHEDULES.items()
    ]
    paused = (await scheduler.schedules.get(_PAUSED)).paused
    reason = "" if paused is None else paused.reason
    (queue,) = await scheduler.limits.pauses()
    (breaker,) = [one for one in await scheduler.limits.breakers() if one.state == OPEN]
    opened = {"state": breaker.state, "key": {breaker.key: breaker.value}, "reason": breaker.reason}
    await ServiceBackend(scheduler).note_change(
        Entry(ACTOR, "calendar.put", "holidays", after={"rev": 1, **_HOLIDAYS.to_document()}),
        *made,
        Entry(
            ACTOR, "schedule.pause", _PAUSED, before={"state": "active"}, after={"state": "paused", "reason": reason}
        ),
        Entry(ACTOR, "pause.create", f"queue:{PARTNERS}", after={"queue": PARTNERS, "reason": queue.reason}),
        Entry(ACTOR, "limit.put", f"name:{_LIMITED}", after={"concurrency": 2}),
        Entry(ACTOR, "breaker.open", "name:charge-card", before={"state": "closed"}, after=opened),
    )
