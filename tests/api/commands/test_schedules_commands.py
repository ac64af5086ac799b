"""`mainspring schedules`: every verb does the same on a database and on a service."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.commands.conftest import Run, number
from harness.firing import fire
from mainspring import Cron, Every, Scheduler
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]
T0 = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)  # ledgers are kept for months


async def of_missed_firings(make_scheduler: Make, count: int = 300) -> tuple[str, ...]:
    """Store a schedule that has missed so many firings; return the options of the window that has them."""
    clock = ManualClock(T0)
    then = make_scheduler(clock=clock)
    end = T0 + timedelta(seconds=count)
    options: dict[str, Any] = {"misfire": "skip", "misfire_grace": 1, "end_at": end}
    await then.schedule("report", repeat=Every("1s", anchor=T0), schedule_id="often", **options)
    clock.advance(timedelta(seconds=count + 2))
    await fire(then)
    return "--since", (T0 + timedelta(milliseconds=1)).isoformat(), "--until", end.isoformat()


@pytest.mark.slow
async def test_a_schedule_is_stored_shown_paused_resumed_and_triggered(command: Run, scheduler: Scheduler) -> None:
    made = await command(
        *("schedules", "add", "report", "--id", "morning", "--cron", "0 9 * * MON-FRI", "--zone", "Europe/Paris"),
        *("--data", '{"kind": "sales"}', "--misfire", "latest", "--overlap", "queue_one", "--jitter", "2m"),
        *("--max-runs", "9", "--pause-after", "3", "--end-at", "2090-01-01T00:00:00Z", "--queue", "slow"),
    )
    assert (made.code, made.out) == (0, "morning\n")
    stored = await scheduler.schedules.get("morning")
    assert stored.rule == Cron("0 9 * * MON-FRI", "Europe/Paris") and stored.data == {"kind": "sales"}
    assert (stored.policy.misfire, stored.policy.overlap, stored.policy.max_runs) == ("latest", "queue_one", 9)
    assert (stored.pause_after, stored.queue, stored.jitter) == (3, "slow", timedelta(minutes=2))
    [row] = (await command("schedules", "list")).rows
    assert row[:3] == ["morning", "report", "active"] and row[-1] == "Europe/Paris"
    shown = await command("schedules", "show", "morning")
    assert "at 09:00" in shown.out and "Europe/Paris" in shown.out
    assert (await command("schedules", "pause", "morning", "--reason", "quiet")).code == 0
    assert (await command("schedules", "list", "--state", "paused", "--json")).json[0]["paused"]["reason"] == "quiet"
    assert (await command("schedules", "resume", "morning", "--json")).json["state"] == "active"
    job = await scheduler.get_job((await command("schedules", "trigger", "morning")).out.strip())
    assert (job.schedule_id, job.data) == ("morning", {"kind": "sales"})
    before = (await scheduler.schedules.get("morning")).next_at
    assert (await command("schedules", "skip", "morning")).code == 0
    assert (await scheduler.schedules.get("morning")).next_at != before
    assert (await command("schedules", "delete", "morning")).code == 0
    assert (await command("schedules", "show", "morning")).code == 3


@pytest.mark.slow
async def test_the_next_firings_are_shown_in_the_zone_of_the_schedule(command: Run) -> None:
    rule = ("--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--start-at", "2030-03-30T12:00:00Z")
    told = await command("schedules", "preview", *rule, "--count", "2")
    assert told.code == 0 and told.out.startswith("30 2 * * *, Europe/Berlin: at 02:30, every day, in Europe/Berlin\n")
    first, second = told.out.splitlines()[2:]
    assert first.startswith("2030-03-31T03:00:00+02:00  2030-03-31T01:00:00.000Z  ") and "02:30" in first
    assert second.split() == ["2030-04-01T02:30:00+02:00", "2030-04-01T00:30:00.000Z", "-"]
    assert (await command("schedules", "add", "report", *rule)).code == 0
    assert (await command("schedules", "add", "report", *rule, "--id", "")).code == 2  # an empty variable of a shell
    stored = (await command("schedules", "preview", "report", "--json", "-n", "2")).json
    assert [one["local"] for one in stored] == ["2030-03-31T03:00:00+02:00", "2030-04-01T02:30:00+02:00"]


@pytest.mark.slow
async def test_past_firings_are_listed_and_made_up_for(
    command: Run, scheduler: Scheduler, make_scheduler: Make
) -> None:
    window = await of_missed_firings(make_scheduler)
    planned = await command("schedules", "backfill", "often", *window, "--dry-run", "--json")
    missed = len(planned.json)
    assert missed > 250 and await number(scheduler) == 0
    done = await command("schedules", "backfill", "often", *window)
    assert (done.code, done.err) == (0, f"mainspring: {missed} jobs made.\n")
    assert await number(scheduler) == missed
    again = await command("schedules", "backfill", "often", *window, "--json")
    assert (again.json["done"], again.json["made"], await number(scheduler)) == (True, 0, missed)
    nothing = await command("schedules", "backfill", "often", *window)
    assert "No firing in this window needs a job" in nothing.err and "before the schedule was created" in nothing.err
    assert "Without --all" in nothing.err
    long_ago = ("--since", "2020-01-01T00:00Z", "--until", "2020-01-02T00:00Z", "--all")
    assert "Without --all" not in (await command("schedules", "backfill", "often", *long_ago)).err
    ledger = await command("schedules", "ledger", "often", *window, "--limit", "2", "--json")
    assert [one["jobId"] is not None for one in ledger.json] == [True, True]


@pytest.mark.slow
async def test_an_interrupted_backfill_goes_on(
    on_database: Run, scheduler: Scheduler, make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = await of_missed_firings(make_scheduler)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mainspring.cli.terminal.progress.Shown.update", interrupt)
        stopped = await on_database("schedules", "backfill", "often", *window)
    assert (stopped.code, await number(scheduler)) == (130, 200)
    assert "200 jobs made. Run the same command to continue; no job is made twice." in stopped.err
    assert (await on_database("schedules", "backfill", "often", *window)).code == 0
    assert await number(scheduler) > 250


@pytest.mark.slow
async def test_wrong_schedules_are_refused_in_words(on_database: Run, scheduler: Scheduler) -> None:
    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="morning")
    for arguments, code, sentence in (
        (("show", "mornin"), 3, "Did you mean 'morning'?"),
        (("add", "report"), 2, "give one of --cron, --every, --rrule and --on"),
        (("add", "report", "--cron", "61 * * * *"), 2, "found '61', expected 0-59."),
        (("add", "report", "--every", "1h", "--zone", "Europe/Pari"), 2, "timezone"),
        (("add", "report", "--every", "1h", "--overlap", "skipp"), 2, "Did you mean 'skip'?"),
        (("add", "--every", "1h", "--endpoint", "https://example.com"), 2, "--id"),
        (("list", "--state", "pausd"), 2, "Did you mean 'paused'?"),
        (("preview", "morning", "--every", "1h"), 2, "not both"),
    ):
        ran = await on_database("schedules", *arguments)
        assert (ran.code, ran.out) == (code, "") and sentence in ran.err, (arguments, ran)
    assert [one.id async for one in scheduler.schedules.find()] == ["morning"]
