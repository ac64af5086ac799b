"""The past of the demonstration: jobs of the last 24 hours with their attempts, errors and logs, and the counts of the
week before.

It is made by chance from a fixed seed, so that each first start shows the same day. The jobs of schedules are those of
their ledgers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mainspring.client.scheduler import Scheduler
from mainspring.client.views.past import PastBackend
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import CANCELLED, COMPLETED, FAILED, Attempt, Job, JobError
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.model.schedules.ledger import LATE, MISSED, SKIPPED, Entry, Row
from mainspring.model.views.statistics import Counts, Kind

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_WORKERS = ("worker-a.example.com:4121:5e0c77d1", "worker-b.example.com:3907:b1f09a42")
_STACK = 'Traceback (most recent call last):\n  File "/srv/shop/{file}", line {line}, in {place}\n    {code}\n{text}'
_Data = Callable[[random.Random], Fields]


@dataclass(frozen=True, slots=True)
class _Fault:
    """An error that jobs of a name end with, and the share of them that do."""

    share: float
    type: str
    message: str
    file: str
    place: str
    code: str
    details: Fields | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """Jobs of one name: how many an hour at noon, how long they take, and how they fail."""

    name: str
    queue: str
    an_hour: float
    seconds: float
    data: _Data
    result: _Data
    faults: tuple[_Fault, ...] = ()
    retried: float = 0.0
    """The share of jobs that succeed at a later attempt."""
    attempts: int = 3


_DECLINED = _Fault(
    *(0.02, "CardDeclined", "order {order}: the bank answered 05, do not honour", "billing.py", "charge_card"),
    "raise CardDeclined(answer)",
)
_GATEWAY_DOWN = _Fault(
    *(0.015, "TimeoutError", "slow-gateway.example.com did not answer within 30 s", "billing.py", "charge_card"),
    "answer = await gateway.charge(order, amount)",
)
_NO_MAILBOX = _Fault(
    *(0.008, "MailboxUnavailable", "550 5.1.1 {to}: no such user here", "mail.py", "send_email"),
    "await smtp.send(message)",
)
_BROKEN_IMAGE = _Fault(
    *(0.025, "UnidentifiedImage", "cannot identify image file '{image}'", "media.py", "resize_image"),
    "image = open_image(path)",
)
_GONE = _Fault(
    *(0.03, "WebhookRejected", "https://hooks.example.com/orders answered 410 Gone", "webhook.py", "send"),
    "raise WebhookRejected(response)",
    {"status": 410, "body": '{"error": "this subscription has ended"}', "url": "https://hooks.example.com/orders"},
)


def _order(chance: random.Random) -> Fields:
    amount = f"{chance.randrange(900, 24_900) / 100:.2f}"
    gateway = chance.choice(("pay.example.com", "pay.example.com", "slow-gateway.example.com"))
    return {"order": f"O-{chance.randrange(6000, 7300)}", "amount": amount, "gateway": gateway}


def _webhook(chance: random.Random) -> Fields:
    body = {"order": f"O-{chance.randrange(6000, 7300)}", "status": "shipped"}
    request = {"url": "https://hooks.example.com/orders", "method": "POST", "body": body}
    return {"request": request, "data": {}, "target": "https://hooks.example.com"}


def _answered(chance: random.Random) -> Fields:
    headers = {"content-type": "application/json", "server": "example"}
    took = chance.randrange(40, 400)
    url = "https://hooks.example.com/orders"
    return {"status": 200, "headers": headers, "body": '{"ok": true}', "duration_ms": took, "url": url}


_SUBJECTS = ("Your order is on its way", "Welcome", "Your invoice", "Your password was changed")
_WORKS = (
    _Work(
        *("send-email", "mail", 200, 0.35),
        lambda chance: {"to": f"customer{chance.randrange(1, 900)}@example.com", "subject": chance.choice(_SUBJECTS)},
        lambda chance: {"id": f"<{chance.getrandbits(48):x}@mail.example.com>"},
        (_NO_MAILBOX,),
        0.03,
    ),
    _Work(
        *("charge-card", "billing", 80, 0.8, _order),
        lambda chance: {"receipt": f"R-{chance.randrange(10**8):08d}"},
        (_DECLINED, _GATEWAY_DOWN),
        0.06,
        2,
    ),
    _Work(
        *("resize-image", "media", 60, 7.0),
        lambda chance: {
            "customer": chance.choice(("acme", "harbour-books", "north-cycles")),
            "image": f"product-{chance.randrange(100, 2000)}.jpg",
        },
        lambda chance: {"sizes": [160, 640, 1280]},
        (_BROKEN_IMAGE,),
    ),
    _Work(
        *("generate-report", "reports", 12, 14.0),
        lambda chance: {"kind": chance.choice(("finance", "stock", "traffic"))},
        lambda chance: {"pages": chance.randrange(4, 60)},
        retried=0.05,
    ),
    _Work(*(HTTP, "partners", 45, 0.25, _webhook, _answered), (_GONE,), 0.08),
)
_FEED = _Fault(
    *(1.0, "FeedError", "line {n} of the feed of parts.example.com has 7 columns instead of 9", "sync.py"),
    *("import_feed", "raise FeedError(place)"),
)
_TOO_SLOW = _Fault(
    *(0.05, "TimeoutError", "warehouse W1 did not answer within 20 s", "sync.py", "sync_inventory"),
    "stock = await warehouse.read()",
)
_BY_SCHEDULE: dict[str, tuple[float, tuple[_Fault, ...]]] = {
    "nightly-backup": (214.0, ()),
    "renew-certificates": (6.0, ()),
    "clean-sessions": (1.2, ()),
    "sync-inventory": (9.0, (_TOO_SLOW,)),
    "exchange-rates": (0.6, ()),
    "probe-health": (0.1, ()),
    "import-feed": (2.5, (_FEED,)),
    "morning-digest": (31.0, ()),
    "weekly-report": (95.0, ()),
}


async def write_history(scheduler: Scheduler, past: PastBackend, schedules: Sequence[str], now: datetime) -> None:
    """Store the last 24 hours, and the counts of the week before."""
    chance = random.Random(2041)
    jobs = [job for work in _WORKS for job in _jobs_of(work, chance, now)]
    for name in schedules:
        jobs += await _runs_of(name, scheduler, past, chance, now)
    await past.add_jobs(jobs)
    await past.add_counts(list(_week_before(chance, now)))


def _busy(at: datetime) -> float:
    """How busy an hour of the day is: most at two in the afternoon, least at night."""
    hour = at.hour + at.minute / 60
    return 0.15 + 0.85 * math.pow(max(0.0, math.cos((hour - 14) / 24 * 2 * math.pi)), 1.3)


def _jobs_of(work: _Work, chance: random.Random, now: datetime) -> Iterator[Job]:
    at = now - _DAY + timedelta(minutes=2)
    while True:
        at += timedelta(hours=chance.expovariate(work.an_hour * _busy(at)))
        if at >= now - timedelta(seconds=5 + 6 * work.seconds * work.attempts):
            return
        data = work.data(chance)
        # An id begins with its instant, as those of jobs do: lists have the newest first by it.
        yield _job(f"{int(at.timestamp()):08x}{chance.getrandbits(64):016x}", work, at, chance, data)


def _job(job_id: str, work: _Work, at: datetime, chance: random.Random, data: Fields, **more: Any) -> Job:
    """A job that was due at an instant, with all its attempts. The last one ends as the job does."""
    drawn, fault = chance.random(), None
    for one in work.faults:
        if drawn < one.share:
            fault = one
            break
        drawn -= one.share
    count = work.attempts if fault else 2 if chance.random() < work.retried else 1
    state = FAILED if fault else CANCELLED if chance.random() < 0.004 else COMPLETED
    attempts = list(_attempts(work, data, state, fault, count, at, chance))
    last = attempts[-1]
    return Job(
        id=job_id,
        name=work.name,
        queue=work.queue,
        data=data,
        priority=5,
        run_at=last.run_at or at,
        created_at=at,
        finished_at=last.ended_at,
        state=state,
        result=work.result(chance) if state == COMPLETED else None,
        error=last.error,
        attempts=tuple(attempts),
        **more,
    )


def _attempts(
    work: _Work, data: Fields, state: str, fault: _Fault | None, count: int, at: datetime, chance: random.Random
) -> Iterator[Attempt]:
    due = at
    for number in range(1, count + 1):
        started = due + timedelta(seconds=chance.expovariate(4) + (2.5 if chance.random() < 0.03 else 0.0))
        ended = started + timedelta(seconds=work.seconds * chance.lognormvariate(0.0, 0.45))
        last = number == count
        error = _error(fault or _GATEWAY_SHAKY, data, chance) if fault or not last else None
        outcome = state if last else "retried"
        lines = _log(work.name, outcome, chance)
        yield Attempt(number, number, outcome, chance.choice(_WORKERS), started, ended, error, lines, run_at=due)
        due = ended + timedelta(seconds=5 * 2 ** (number - 1))


_GATEWAY_SHAKY = _Fault(
    *(0.0, "ConnectionResetError", "[Errno 104] Connection reset by peer", "network.py", "request"),
    "return await session.request(method, url)",
)


def _error(fault: _Fault, data: Fields, chance: random.Random) -> JobError:
    """The error of a job, whose message names fields of its data."""
    message = fault.message.replace("{n}", str(chance.randrange(1000, 9999)))
    for name, value in data.items():
        message = message.replace(f"{{{name}}}", str(value))
    stack = _STACK.format(
        file=fault.file,
        line=40 + len(fault.type),
        place=fault.place,
        code=fault.code,
        text=f"{fault.type}: {message}",
    )
    return JobError(fault.type, message, stack, fault.details)


def _log(name: str, outcome: str, chance: random.Random) -> tuple[str, ...]:
    if chance.random() < 0.5:
        return ()
    first = f"{name}: started with {chance.randrange(1, 40)} items"
    end = {"completed": "done", "failed": "giving up", "cancelled": "stopped"}.get(outcome, "to be tried again")
    return (first, f"{name}: connected in {chance.randrange(3, 90)} ms", f"{name}: {end}")


# -- schedules ---------------------------------------------------------------------------------------------------------


async def _runs_of(
    name: str, scheduler: Scheduler, past: PastBackend, chance: random.Random, now: datetime
) -> list[Job]:
    """The jobs of a schedule's firings of the last day, by its ledger."""
    if name not in _BY_SCHEDULE:
        return []
    fired = [one for one in await scheduler.schedules.ledger(name, now - _DAY, now) if one.job_id is not None]
    if not fired:
        return []
    rows = _uneven(fired, chance)
    without = {row.at for row in rows if row.outcome != LATE}
    seconds, faults = _BY_SCHEDULE[name]
    template = await scheduler.schedules.get(name)
    work = _Work(
        *(name, template.queue, 0, seconds, lambda _: dict(template.data)),
        lambda chance: {"items": chance.randrange(20, 400)},
        faults,
        attempts=2,
    )
    ran = [one for one in fired if one.at not in without and one.at < now - timedelta(seconds=30 + 3 * seconds)]
    if not ran:
        return []
    await past.add_runs(name, len(ran), (ran[-1].at, str(ran[-1].job_id)), rows)
    tags = template.tags
    return [
        _job(
            str(one.job_id),
            work,
            one.at,
            chance,
            dict(template.data),
            tags=tags,
            schedule_id=name,
            scheduled_for=one.at,
        )
        for one in ran
    ]


def _uneven(fired: Sequence[Entry], chance: random.Random) -> list[Row]:
    """Rows of firings that were late, missed or skipped: a few of a schedule that fires often."""
    if len(fired) < 20:
        return []
    chosen = sorted(chance.sample(range(2, len(fired) - 2), 3))
    late, missed, skipped = (fired[place] for place in chosen)
    return [
        Row(late.at, late.at, LATE, late_by=timedelta(seconds=chance.randrange(20, 90)), job_id=late.job_id),
        Row(missed.at, missed.at, MISSED, "no worker was up"),
        Row(skipped.at, skipped.at, SKIPPED, "overlap"),
    ]


# -- the week before ---------------------------------------------------------------------------------------------------


def _week_before(chance: random.Random, now: datetime) -> Iterator[tuple[Kind, Counts]]:
    """Counts of the week before yesterday, one for each hour: their jobs are not kept any more."""
    first = now.replace(minute=0, second=0, microsecond=0) - _WEEK - _DAY
    for hour in range(7 * 24):
        at = first + timedelta(hours=hour)
        weekend = 0.5 if at.weekday() >= 5 else 1.0
        for work in _WORKS:
            expected = work.an_hour * _busy(at) * weekend
            counts = Counts()
            for _ in range(max(0, round(chance.gauss(expected, expected**0.5)))):
                counts.began(round(chance.expovariate(4) * 1000))
                failed = chance.random() < 0.7 * sum(fault.share for fault in work.faults)
                took = work.seconds * chance.lognormvariate(0.0, 0.45)
                counts.ended("failed" if failed else "completed", round(took * 1000))
            if counts.started:
                yield Kind(at, work.queue, work.name), counts
