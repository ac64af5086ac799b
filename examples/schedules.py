"""Recurring work: a schedule that is declared beside its handler, and one that is made at run time.

    python examples/schedules.py

It shows what a rule will do on a night in March before anything is stored, lets one schedule fire three times, and
reads in the ledger what became of the firings of the other.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from mainspring import Cron, JobContext, Scheduler

scheduler = Scheduler()
beats: asyncio.Queue[datetime | None] = asyncio.Queue()


@scheduler.every("1s", overlap="skip")  # stored when the scheduler starts; its id is the handler's name
async def heartbeat(ctx: JobContext) -> None:
    await beats.put(ctx.scheduled_for)  # the firing's own instant, however late it runs


@scheduler.job("report")
async def report(kind: str) -> str:
    return f"a report on {kind}"


async def show_a_night_in_march() -> None:
    """What a rule will do, without storing anything."""
    rule = Cron("30 2 * * *", timezone="Europe/Berlin")
    print(rule.describe())
    for firing in await scheduler.schedules.preview(rule, 3, start=datetime(2026, 3, 28, tzinfo=UTC)):
        print(firing.at, *firing.notes)


async def run_by_hand() -> None:
    """A schedule made at run time. Said again with the same id, it stays as it is."""
    schedule = await scheduler.schedule(
        "report",
        {"kind": "sales"},
        repeat=Cron("0 9 * * 1-5", timezone="Asia/Kolkata"),
        schedule_id="sales-report",
        overlap="skip",
    )
    await schedule.skip_next("public holiday", actor="ann")
    job = await schedule.trigger(reason="wanted earlier", actor="ann")
    print((await scheduler.wait(job.id, timeout=30)).result)
    for entry in await schedule.ledger(schedule.created_at, schedule.created_at + timedelta(days=7)):
        if entry.outcome != "expected":
            print(entry.outcome, "-", entry.reason, "-", entry.actor)


async def main() -> None:
    await show_a_night_in_march()
    async with scheduler:
        await run_by_hand()
        firings = [await beats.get() for _ in range(3)]
        print("heartbeat has fired", len(set(firings)), "times")
        for schedule_id in ("heartbeat", "sales-report"):
            await scheduler.schedules.delete(schedule_id)


if __name__ == "__main__":
    asyncio.run(main())
