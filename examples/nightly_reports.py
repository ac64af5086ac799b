"""Nightly reports in several time zones: one handler, one schedule per office, each at two in the morning there.

    python examples/nightly_reports.py

It prints when the next reports of each office are due, by the clock of the office and in UTC, with a note on the night
on which clocks change. Then it runs one report of each by hand.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from mainspring import Cron, JobContext, Schedule, Scheduler

scheduler = Scheduler()
OFFICES = {"berlin": "Europe/Berlin", "new-york": "America/New_York", "kolkata": "Asia/Kolkata"}
SATURDAY = datetime(2026, 3, 28, tzinfo=UTC)  # clocks go forward in Berlin on the next day


@scheduler.job("nightly-report")
async def nightly_report(ctx: JobContext, office: str) -> str:
    """The report of the day that has ended in the office. The day follows from the firing's own instant, not from the
    clock: it is the same when the job runs late, or again."""
    assert ctx.scheduled_for is not None  # None only in a job that no schedule made
    day = ctx.scheduled_for.astimezone(ZoneInfo(OFFICES[office])).date() - timedelta(days=1)
    return f"the report of {office} for {day}"


async def declare(office: str, zone: str) -> Schedule:
    """Store the schedule of an office. Every deploy may repeat this: an equal schedule stays as it is."""
    return await scheduler.schedule(
        nightly_report,
        {"office": office},
        repeat=Cron("30 2 * * *", timezone=zone),
        schedule_id=f"nightly-report-{office}",
        overlap="skip",  # a slow report is not joined by the next one
        misfire="latest",  # after an outage, the last report that was missed
    )


async def main() -> None:
    schedules = [await declare(office, zone) for office, zone in OFFICES.items()]
    for schedule in schedules:
        print(f"{schedule.id}: {schedule.rule.describe()}")
        for firing in await scheduler.schedules.preview(schedule.rule, 2, start=SATURDAY):
            print(f"  {firing.at:%a %H:%M} there, {firing.at.astimezone(UTC):%a %H:%M} UTC", *firing.notes)
    async with scheduler:
        for schedule in schedules:
            job = await schedule.trigger(reason="the example")
            print((await job.wait(timeout=30)).result)
            await schedule.delete()


if __name__ == "__main__":
    asyncio.run(main())
