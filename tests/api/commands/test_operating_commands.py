"""`mainspring status`, `top`, `queues`, `dead`, `workers`, `secrets`, `keys`, `audit`: the same on a database and on a
service."""

from __future__ import annotations

import io
import json
import sys

import pytest

from api.commands.conftest import Run, number
from mainspring import Scheduler
from mainspring.cli.terminal import output
from mainspring.store.views import counts


@pytest.mark.slow
async def test_the_status_says_what_is_wrong_and_ends_with_1_if_jobs_are_not_run(
    command: Run, scheduler: Scheduler
) -> None:
    await scheduler.schedule("report", queue="a")
    told = await command("status")
    assert told.code in (0, 1) and "1 pending" in told.out
    assert told.out.count("No worker is alive") == 1
    async with scheduler:
        await scheduler.queues.pause("a", reason="quiet")
        healthy = await command("status")
        assert healthy.code == 0 and healthy.out.split()[:2] == ["status", "healthy"]
        assert "The queue 'a' is paused" in healthy.out
        assert (await command("status", "--json")).json["health"]["status"] == "healthy"


async def test_the_status_marks_the_numbers_of_jobs_that_are_lower_bounds(
    on_database: Run, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(30):
        await scheduler.schedule("report", delay=60)
    assert "30 pending" in (await on_database("status")).out
    monkeypatch.setattr(counts, "_BY_STATE", 20)
    assert "+ pending" in (await on_database("status")).out
    assert (await on_database("status", "--json")).json["lowerBounds"] == ["pending"]
    assert "+ pending" in (await on_database("top")).out


@pytest.mark.slow
async def test_a_look_of_top_is_printed_once_in_a_pipe(command: Run, scheduler: Scheduler) -> None:
    await scheduler.schedule("report", queue="a", delay=60)
    async with scheduler:
        told = await command("top")
        assert told.code == 0 and "\x1b" not in told.out
        assert [line.split()[:3] for line in told.out.splitlines() if line.startswith("a ")] == [["a", "0", "1"]]
        looks = (await command("top", "--json", "--count", "2", "--every", "10ms")).out.splitlines()
        assert [json.loads(look)["queues"][0]["name"] for look in looks] == ["a", "a"]


async def test_lists_fit_a_terminal_of_eighty_columns_and_keep_ids_names_and_states(
    on_database: Run, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "rebuild-the-catalogue"
    job = await scheduler.schedule(name, queue="maintenance", delay=60)
    rule = ("--cron", "0 8 * * 1-5", "--timezone", "America/New_York")
    assert (await on_database("schedules", "add", name, *rule)).code == 0
    await scheduler.api_keys.create(name, "admin")
    monkeypatch.setattr(output, "terminal_width", lambda: 80)
    for arguments, essential in [
        (("jobs", "list"), (job.id, name, "pending")),
        (("schedules", "list"), (name, "active", "0 8 * * 1-5")),
        (("queues", "list"), ("maintenance",)),
        (("audit", "list"), (name, "schedule.put")),
        (("keys", "list"), (name, "admin", "in force")),
    ]:
        told = await on_database(*arguments)
        assert told.code == 0 and max(map(len, told.out.splitlines())) <= 80, told.out
        assert all(one in told.out for one in essential), told.out


@pytest.mark.slow
async def test_a_queue_is_paused_resumed_and_limited(command: Run, scheduler: Scheduler) -> None:
    await scheduler.schedule("report", queue="mail", delay=60)
    assert (await command("queues", "pause", "mail", "--reason", "quiet")).code == 0
    [row] = (await command("queues", "list")).rows
    assert (row[0], row[-2:]) == ("mail", ["paused", "quiet"])
    missing = await command("queues", "pause", "mali")
    assert missing.code == 0 and missing.err.endswith("counts once one has. Did you mean 'mail'?\n")
    assert (await command("queues", "resume", "mali")).code == 0
    wrong = await command("queues", "resume", "mial")
    assert wrong.code == 3 and wrong.err.endswith("Did you mean 'mail'?\n")
    assert (await command("queues", "resume", "mail")).code == 0
    assert (await command("queues", "limit", "mail", "-c", "2", "--rate", "100/minute")).code == 0
    [row] = (await command("queues", "limit", "mail")).rows
    assert row[:3] == ["mail", "2", "100/60s"]
    assert (await command("queues", "limit", "mail", "--remove")).code == 0
    assert (await command("queues", "limit", "mail", "--remove")).code == 3
    for many, bound in (("0", "greater than or equal to 1"), ("1000001", "less than or equal to 1000000")):
        none = await command("queues", "limit", "mail", "--concurrency", many)
        assert none.code == 2 and f"--concurrency: Input should be {bound}\n" in none.err
    wrong = await command("queues", "limit", "mail", "--rate", "often")
    assert wrong.code == 2 and "often" in wrong.err


async def test_the_note_about_a_queue_that_nothing_has_is_told_once(
    on_database: Run, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    await scheduler.schedule("report", queue="mail", delay=60)
    for words in (("pause", "mali"), ("limit", "mali", "-c", "2")):
        told = await on_database("queues", *words)
        assert told.code == 0 and told.err.endswith("counts once one has. Did you mean 'mail'?\n")
    assert not [record for record in caplog.records if "counts once one has" in record.getMessage()]


@pytest.mark.slow
async def test_dead_letters_are_listed_retried_and_discarded(command: Run, scheduler: Scheduler) -> None:
    @scheduler.job("break", retry=1)
    async def fail(way: str = "no") -> None:
        raise ValueError(f"{way}\x1b[2J")

    async with scheduler:
        jobs = [await scheduler.schedule("break", {"way": way}) for way in ("a", "b", "c")]
        for job in jobs:
            await scheduler.wait(job.id)
    assert {row[0] for row in (await command("dead", "list")).rows} == {job.id for job in jobs}
    assert "\x1b" not in (await command("dead", "list")).out
    assert (
        await command("dead", "list", "--limit", "3")
    ).err == "mainspring: There may be more; use --limit 30 to see them.\n"
    assert (await command("dead", "list", "--limit", "4")).err == ""
    groups = (await command("dead", "groups", "--json")).json
    assert sum(one["count"] for one in groups) == 3
    refused = await command("dead", "discard", "--all")
    assert refused.code == 2 and "Nothing was done: add --yes" in refused.err
    assert (await command("dead", "retry")).code == 2
    assert (await command("dead", "retry", "--all", jobs[0].id)).code == 2
    done = await command("dead", "retry", jobs[0].id, "--data", '{"way": "z"}')
    assert (done.code, done.err) == (0, "mainspring: 1 dead letter to be run again.\n")
    assert (await scheduler.get_job(jobs[0].id)).data == {"way": "z"}
    redrive = (await command("dead", "retry", "--text", "b", "--yes", "--json")).json
    assert (redrive["done"], redrive["matched"]) == (1, 1)
    assert (await command("dead", "follow", redrive["id"])).code == 0
    assert (await command("dead", "discard", "--all", "--yes")).code == 0
    assert await number(scheduler, "failed") == 0


@pytest.mark.slow
async def test_a_worker_is_listed_and_drained(command: Run, scheduler: Scheduler) -> None:
    assert (await command("workers", "list")).err == "No worker: mainspring worker MODULE:SCHEDULER\n"
    async with scheduler:
        [worker] = (await command("workers", "list", "--json")).json
        wrong = await command("workers", "drain", worker["id"][:-1])
        assert wrong.code == 3 and worker["id"] in wrong.err
        drained = (await command("workers", "drain", worker["id"], "--reason", "new version", "--json")).json
        assert (drained["id"], drained["drain"]["reason"]) == (worker["id"], "new version")


async def test_a_secret_is_read_from_stdin_and_never_shown(
    command: Run, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("s3cr3t-value\n"))
    stored = await command("secrets", "set", "token", "--origin", "https://api.example.com")
    if stored.code != 0:
        assert "mainspring generate-key" in stored.err  # the service of this test has no encryption key
        return
    listed = await command("secrets", "list")
    assert listed.rows[0][:2] == ["token", "1"] and "s3cr3t" not in listed.out
    missing = await command("secrets", "delete", "tokn")
    assert missing.code == 3 and missing.err.endswith("Did you mean 'token'?\n")
    assert (await command("secrets", "delete", "token")).code == 0


async def test_an_unknown_secret_is_told_in_the_words_of_the_command_line(command: Run, scheduler: Scheduler) -> None:
    missing = await command("secrets", "delete", "tokn")
    told = "There is no secret 'tokn'; `mainspring secrets list` shows those that there are."
    assert (missing.code, missing.err) == (3, f"mainspring: {told}\n")


@pytest.mark.slow
async def test_api_keys_are_made_listed_rotated_and_revoked(command: Run, scheduler: Scheduler) -> None:
    await command("keys", "create", "first", "--role", "admin")
    made = await command("keys", "create", "tenant", "--role", "viewer", "--queue", "mail", "--expires-in", "90d")
    assert made.code == 0 and made.out.startswith("ms_")
    key_id = made.out.split("_")[1]
    [row] = [row for row in (await command("keys", "list")).rows if row[0] == key_id]
    assert (row[1:3], row[-2:]) == (["tenant", "viewer"], ["queue", "mail"])
    rotated = await command("keys", "rotate", key_id, "--grace", "1h")
    assert rotated.code == 0 and rotated.out.split("_")[1] == key_id and rotated.out != made.out
    wrong = await command("keys", "create", "x", "--role", "operatr")
    assert wrong.code == 2 and "Did you mean 'operator'?" in wrong.err
    unknown = await command("keys", "revoke", "nobody")
    assert unknown.code == 3 and "`mainspring keys list`" in unknown.err
    revoked = await command("keys", "revoke", key_id)
    assert (revoked.code, revoked.err) == (0, f"mainspring: The key {key_id} is revoked.\n")


@pytest.mark.slow
async def test_changes_are_in_the_audit_log_under_the_actor_of_the_command(command: Run, scheduler: Scheduler) -> None:
    job = await scheduler.schedule("report", delay=60)
    await command("jobs", "cancel", job.id)
    [row] = (await command("audit", "list", "--action", "job.*", "--json")).json
    assert (row["action"], row["target"], row["actor"].partition(":")[0] in ("cli", "key")) == (
        *("job.cancel", job.id, True),
    )
    assert (await command("audit", "verify")).out.startswith("OK: ")
    head = (await command("audit", "head")).out.strip()
    assert (await command("audit", "verify", "--known", head)).code == 0
