"""Time travel: the clock is moved from firing to firing, and what is due at each is run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from mainspring import Breaker, ConfigurationError, Cron, Every, Retry, Scheduler
from mainspring.clock import ManualClock
from mainspring.testing import drain, run_until_idle, travel

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.slow
async def test_every_firing_on_the_way_is_fired_at_its_instant_and_its_job_run(
    timed: Scheduler, clock: ManualClock
) -> None:
    seen = []

    @timed.job("report")
    async def report() -> None:
        seen.append(clock.now())

    await timed.schedule("report", repeat=Every("6h"), schedule_id="six-hourly")
    began = clock.now()
    journey = await travel(timed, by="1d")
    assert journey.arrived == clock.now() == began + timedelta(days=1)
    assert seen == journey.instants == journey.of("six-hourly")
    assert len(seen) in (4, 5) and all(later - one == timedelta(hours=6) for one, later in pairwise(seen))
    assert journey.runs.names == ["report"] * len(seen)
    assert journey.notices == ()


@pytest.mark.parametrize(
    ("first", "hours"),
    [
        (datetime(2030, 3, 29, 12, tzinfo=BERLIN), [24, 23, 24]),
        (datetime(2030, 10, 25, 12, tzinfo=BERLIN), [24, 25, 24]),
    ],
)
@pytest.mark.slow
async def test_a_daily_schedule_keeps_its_hour_across_a_change_of_the_clocks(
    timed: Scheduler, first: datetime, hours: list[int]
) -> None:
    @timed.job("lunch")
    async def lunch() -> None: ...

    await travel(timed, to=first - timedelta(hours=1))
    await timed.schedule("lunch", repeat=Cron("0 12 * * *", timezone="Europe/Berlin"), schedule_id="lunch")
    instants = (await travel(timed, to=first + timedelta(days=3, hours=1))).instants
    assert [one.astimezone(BERLIN).hour for one in instants] == [12] * 4
    assert [(later - one) / timedelta(hours=1) for one, later in pairwise(instants)] == hours


async def test_a_jump_misses_the_firings_in_between_and_reports_them(timed: Scheduler) -> None:
    @timed.job("report")
    async def report() -> None: ...

    await timed.schedule("report", repeat=Every("1h"), misfire="skip", schedule_id="hourly")
    await travel(timed, by=1)
    journey = await travel(timed, by="12h", jump=True)
    assert len(journey.firings) <= 1
    assert [notice.outcome for notice in journey.notices]


@pytest.mark.slow
async def test_a_journey_that_cannot_be_made_is_refused_with_the_cure(timed: Scheduler, clock: ManualClock) -> None:
    with pytest.raises(ConfigurationError, match="either to=, an instant, or by=, a duration"):
        await travel(timed)
    with pytest.raises(ConfigurationError, match="has no time zone"):
        await travel(timed, to=datetime(2031, 1, 1))
    with pytest.raises(ConfigurationError, match="forwards only"):
        await travel(timed, to=datetime(2029, 1, 1, tzinfo=UTC))

    @timed.job("tick")
    async def tick() -> None: ...

    await timed.schedule("tick", repeat=Every("1s"))
    with pytest.raises(AssertionError, match=r"After 5 stops .* jump=True"):
        await travel(timed, by="1h", most=5)


@pytest.mark.parametrize("move", ["run_until_idle", "travel"])
async def test_a_job_that_a_rate_holds_back_starts_at_the_instant_of_its_token(
    timed: Scheduler, clock: ManualClock, move: str
) -> None:
    started = []

    @timed.job("call", rate="2/hour")
    async def call() -> None:
        started.append(clock.now())

    began = clock.now()
    for _ in range(5):
        await timed.schedule("call")
    if move == "travel":
        await travel(timed, by="91m")
    else:
        await run_until_idle(timed)
    assert [round((one - began) / timedelta(minutes=1)) for one in started] == [0, 0, 30, 60, 90]


async def test_jobs_that_an_open_breaker_holds_back_start_at_the_end_of_its_time(
    timed: Scheduler, clock: ManualClock
) -> None:
    began, started = clock.now(), list[datetime]()

    @timed.job("call", retry=Retry(2, delay=1, jitter=0), breaker=Breaker(minimum=2, open_for="10m"))
    async def call() -> None:
        started.append(clock.now())
        if clock.now() == began:
            raise ConnectionError("refused")

    for _ in range(2):
        await timed.schedule("call")
    await drain(timed)
    (breaker,) = await timed.limits.breakers()
    assert breaker.state == "open"
    await run_until_idle(timed)
    assert started == [began, began, breaker.open_until, breaker.open_until]
