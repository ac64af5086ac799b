"""What is refused of schedules, with its cure; and that it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from harness.firing import DAY, T0, document_of
from harness.looking import Database, count_jobs
from mainspring import (
    At,
    CalendarNotFound,
    ConfigurationError,
    Cron,
    Every,
    Except,
    InvalidCron,
    InvalidJob,
    InvalidSchedule,
    MainspringError,
    Schedule,
    Scheduler,
)
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]

NINE = Cron("0 9 * * *")


async def stored(db: Database) -> int:
    return await db["jobs.schedules"].count_documents({}, hint="_id_")


NAIVE = datetime(2030, 1, 1)
WRONG: list[tuple[dict[str, Any], type[MainspringError], str]] = [
    ({"repeat": "0 9 * * *"}, InvalidSchedule, r'repeat must be a rule, such as Cron\("0 9 \* \* \* *"\)'),
    ({"repeat": Cron}, InvalidSchedule, "repeat must be a rule"),
    ({"repeat": 0}, InvalidSchedule, "repeat must be a rule"),
    ({"run_at": T0 + DAY}, InvalidSchedule, "run_at is for a single job; with repeat, use start_at"),
    ({"delay": 5}, InvalidSchedule, "delay is for a single job; with repeat, use start_at"),
    ({"expires_at": T0 + DAY}, InvalidSchedule, "expires_at is for a single job; with repeat, use start_within"),
    ({"dedupe_key": "k"}, InvalidSchedule, "dedupe_key is for a single job; with repeat, each firing makes one job"),
    ({"parent_id": "p"}, InvalidSchedule, "parent_id is for a single job; with repeat, leave it out"),
    ({"session": object()}, InvalidSchedule, "session is for a single job; with repeat, a schedule is stored at once"),
    ({"start_at": NAIVE}, InvalidSchedule, "start_at=2030-01-01T00:00:00 has no time zone"),
    ({"end_at": NAIVE}, InvalidSchedule, "end_at=2030-01-01T00:00:00 has no time zone"),
    ({"end_at": "2030"}, InvalidSchedule, "end_at must be an aware datetime, not '2030'"),
    ({"start_at": T0 + DAY, "end_at": T0}, InvalidSchedule, "end_at .* is before start_at"),
    ({"end_at": T0 - DAY}, InvalidSchedule, "would never fire"),
    ({"repeat": At([T0 - DAY])}, InvalidSchedule, "Schedule 's' would never fire: its rule has no firing after now"),
    ({"jitter": -1}, InvalidSchedule, "jitter must be between 0 seconds and ten years"),
    ({"jitter": "a bit"}, InvalidSchedule, "jitter=.a bit. is not a duration"),
    ({"misfire": "none"}, InvalidSchedule, "misfire must be one of skip, latest, all, not 'none'"),
    ({"overlap": "wait"}, InvalidSchedule, "overlap must be one of allow, skip, queue_one, queue_all, cancel_running"),
    ({"misfire_grace": "a bit"}, InvalidSchedule, "misfire_grace=.a bit. is not a duration"),
    ({"misfire_grace": 0.5}, InvalidSchedule, "misfire_grace must be at least 1 second"),
    ({"misfire_limit": 1001}, InvalidSchedule, "misfire_limit must be a whole number from 1 to 1,000, not 1001"),
    ({"misfire_limit": 0}, InvalidSchedule, "misfire_limit must be a whole number"),
    ({"start_deadline": -1}, InvalidSchedule, "start_deadline must be between"),
    ({"max_runs": 0}, InvalidSchedule, "max_runs must be a whole number"),
    ({"max_runs": True}, InvalidSchedule, "max_runs must be a whole number"),
    ({"pause_after": 1.5}, InvalidSchedule, "pause_after must be a whole number"),
    ({"overlp": "skip"}, InvalidSchedule, "A schedule has no option 'overlp'. Did you mean 'overlap'?"),
    ({"prioritty": 1}, InvalidSchedule, "A schedule has no option 'prioritty'. Did you mean 'priority'?"),
    ({"zzz": 1}, InvalidSchedule, "A schedule has no option 'zzz'. Known are: encrypt, end_at, guarantee, jitter"),
    ({"schedule_id": ""}, InvalidSchedule, "schedule_id must be printable text of 1 to 200 characters"),
    ({"schedule_id": "a\nb"}, InvalidSchedule, "schedule_id must be printable text"),
    ({"schedule_id": 5}, InvalidSchedule, "schedule_id must be printable text"),
    ({"priority": 11}, InvalidJob, "priority"),
    ({"data": {"n": object()}}, InvalidJob, "data"),
    (
        {"repeat": Every("5m", after="end"), "overlap": "skip"},
        InvalidSchedule,
        "overlap has no effect with aft",
    ),
    ({"repeat": Except(NINE, "nowhere")}, CalendarNotFound, "No calendar has the name 'nowhere'"),
]


async def test_what_is_wrong_is_refused_with_its_cure_and_changes_nothing(timed: Scheduler, db: Database) -> None:
    for options, error, message in WRONG:
        given = {"repeat": NINE, "schedule_id": "s", **options}
        with pytest.raises(error, match=message):
            await timed.schedule("work", **given)
        assert await stored(db) == await count_jobs(db) == 0


WRONG_EDITS: list[tuple[dict[str, Any], type[MainspringError], str]] = [
    ({"repeat": "daily"}, InvalidSchedule, "repeat must be a rule"),
    ({"repeat": At([T0 - DAY])}, InvalidSchedule, "would never fire"),
    ({"repeat": Except(NINE, "nowhere")}, CalendarNotFound, "nowhere"),
    ({"repeat": Every("1h", after="end")}, InvalidSchedule, r'leave it out or set it to "allow"'),
    ({"end_at": T0 - DAY}, InvalidSchedule, "is before start_at"),
    ({"start_at": NAIVE}, InvalidSchedule, "no time zone"),
    ({"misfire": "x"}, InvalidSchedule, "misfire must be one of"),
    ({"mizfire": "x"}, InvalidSchedule, "Did you mean 'misfire'"),
    ({"remove": ["priority"]}, InvalidSchedule, "remove takes a list of options, out of end_at, jitter"),
    ({"remove": "end_at"}, InvalidSchedule, "remove takes a list of options"),
    ({"priority": 0}, InvalidJob, "priority"),
    ({"queue": ""}, ConfigurationError, "queue"),
    ({"data": {"wrong": 1}}, InvalidJob, "wrong"),
    ({"timeout": 0}, InvalidJob, "timeout must be more than 0"),
]


async def test_an_edit_that_is_wrong_changes_nothing(timed: Scheduler, db: Database) -> None:
    @timed.job("work")
    async def work(n: int) -> None: ...

    await timed.schedule("work", {"n": 1}, repeat=NINE, schedule_id="s", start_at=T0, overlap="skip")
    before = await document_of(db, "s")
    for changes, error, message in WRONG_EDITS:
        with pytest.raises(error, match=message):
            await timed.schedules.edit("s", **changes)
        assert await document_of(db, "s") == before


async def test_the_data_of_a_schedule_must_suit_its_handler(timed: Scheduler, db: Database) -> None:
    @timed.job("work")
    async def work(n: int) -> None: ...

    with pytest.raises(InvalidJob, match="m"):
        await timed.schedule("work", {"m": 1}, repeat=NINE)
    assert await stored(db) == 0


async def test_options_of_schedules_are_refused_without_repeat(timed: Scheduler, db: Database) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"schedule_id": "s"}, "schedule_id is an option of schedules; give repeat=… too"),
        ({"schedule_id": ""}, "schedule_id is an option of schedules"),
        ({"overlap": "skip"}, "overlap is an option of schedules"),
        ({"prioritty": 1}, "A job has no option 'prioritty'. Did you mean 'priority'?"),
        ({"overlap": "skip", "prioritty": 1}, "A job has no option 'prioritty'"),
    ]
    for options, message in refused:
        with pytest.raises(InvalidJob, match=message):
            await timed.schedule("work", **options)
    assert await count_jobs(db) == 0


async def test_a_wrong_expression_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidCron, match="minute") as caught:
        Cron("61 9 * * *")
    assert (caught.value.position, caught.value.expression) == (0, "61 9 * * *")


async def test_wrong_arguments_of_the_verbs_are_refused(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s")
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: schedule.pause(5), "A reason is a text"),  # type: ignore[arg-type]
        (lambda: schedule.pause("x" * 1001), "at most 1,000 characters"),
        (lambda: schedule.pause(actor=""), "an actor must be printable"),
        (lambda: schedule.trigger(overlap="wait"), "overlap must be one of"),  # type: ignore[arg-type]
        (lambda: schedule.ledger(NAIVE, T0), "start=2030-01-01T00:00:00 has no time zone"),
        (lambda: schedule.ledger(T0, "now"), "end must be an aware datetime"),  # type: ignore[arg-type]
        (lambda: schedule.ledger(T0, T0 + DAY, limit=0), "limit must be a whole number from 1 to 10,000"),
        (lambda: timed.schedules.preview(NINE, 10_001), "count must be a whole number from 0 to 10,000"),
        (lambda: timed.schedules.preview(NINE, start=NAIVE), "start=2030-01-01T00:00:00 has no time zone"),
        (lambda: timed.schedules.preview(NINE, start_at=NAIVE), "start_at=2030-01-01T00:00:00 has no time zone"),
        (lambda: timed.schedules.preview(NINE, jitter=-1), "jitter must be between"),
        (lambda: timed.schedules.preview("daily"), "repeat must be a rule"),  # type: ignore[arg-type]
        (lambda: schedule.backfill(NAIVE, T0), "start=2030-01-01T00:00:00 has no time zone"),
        (lambda: schedule.backfill(T0, T0), "The window ends .* before it begins"),
        (lambda: schedule.backfill(T0 + DAY, T0 + 2 * DAY), "this window begins in the future"),
        (lambda: schedule.backfill(T0 - DAY, T0, which="some"), "which must be one of not_run, all"),
        (lambda: schedule.backfill(T0 - DAY, T0, limit=10_001), "limit must be a whole number from 1 to 10,000"),
        (lambda: schedule.backfill(T0 - DAY, T0, backfill_id=""), "backfill_id must be printable"),
    ]
    for call, message in calls:
        with pytest.raises(ConfigurationError, match=message):
            await call()
    assert (await schedule.refresh()).rev == schedule.rev


async def test_a_schedule_that_was_read_from_nowhere_cannot_be_managed(timed: Scheduler) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s")
    loose = Schedule(**{key: getattr(schedule, key) for key in Schedule.__dataclass_fields__ if key != "_verbs"})
    assert loose == schedule
    with pytest.raises(ConfigurationError, match="was not read from a Scheduler"):
        await loose.pause()
