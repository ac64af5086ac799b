"""`mainspring jobs`: every verb does the same on a database and on a service."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from api.commands.conftest import Run, number
from mainspring import Scheduler
from mainspring.cli.calls.api import Api


async def test_a_job_is_added_listed_shown_and_explained(command: Run, scheduler: Scheduler) -> None:
    made = await command(
        *(
            "jobs",
            "add",
            "report",
            "--data",
            '{"kind": "sales"}',
            "--delay",
            "1h",
            "--priority",
            "2",
            "--queue",
            "slow",
        ),
        *("--tag", "a", "--tag", "b", "--retries", "4", "--timeout", "90s", "--guarantee", "at_least_once"),
        *("--dedupe-key", "once", "--start-within", "2h"),
    )
    assert made.code == 0, made.err
    job = await scheduler.get_job(made.out.strip())
    assert (job.name, job.data, job.priority, job.queue, set(job.tags)) == (
        *("report", {"kind": "sales"}, 2, "slow", {"a", "b"}),
    )
    assert (job.guarantee, job.dedupe_key) == ("at_least_once", "once")
    assert job.retry_policy is not None and job.retry_policy.attempts == 5
    assert job.timeout is not None and job.timeout.total_seconds() == 90
    assert (job.run_at - job.created_at).total_seconds() == pytest.approx(3600, abs=1)
    again = await command("jobs", "add", "report", "--dedupe-key", "once")
    assert again.out.strip() == job.id and "already exists" in again.err
    [row] = (await command("jobs", "list", "--queue", "slow", "--where", "kind=sales")).rows
    assert row[:4] == [job.id, "report", "slow", "pending"]
    assert (await command("jobs", "list", "--where", "kind=other")).out == ""
    [found] = (await command("jobs", "list", "--json")).json
    assert found["id"] == job.id
    shown = await command("jobs", "show", job.id)
    assert ["data", '{"kind": "sales"}'] in [
        [*line.split("  ")[:1], line.split("  ")[-1]] for line in shown.out.split("\n")
    ]
    assert (await command("jobs", "show", job.id, "--json")).json["data"] == {"kind": "sales"}
    explained = await command("jobs", "explain", job.id)
    assert explained.code == 0 and "due" in explained.out and "shut" in explained.out
    counts = {one["state"]: one["count"] for one in (await command("jobs", "count", "--json")).json}
    assert counts["pending"] == 1


@pytest.mark.slow
async def test_a_job_is_run_cancelled_and_retried(command: Run, scheduler: Scheduler) -> None:
    job = await scheduler.schedule("report", delay=3600)
    assert (await command("jobs", "run", job.id)).code == 0
    assert (await scheduler.get_job(job.id)).run_at < job.run_at
    cancelled = await command("jobs", "cancel", job.id, "--reason", "not needed")
    assert (cancelled.code, cancelled.err) == (0, f"mainspring: The job {job.id} (report) is cancelled.\n")
    assert (await command("jobs", "run", job.id)).code == 1
    assert (await command("jobs", "retry", job.id, "--json")).json["state"] == "pending"
    actions = [row.action for row in await scheduler.audit.find()]
    assert actions == ["job.retry", "job.cancel", "job.run"]


async def test_a_webhook_is_added(command: Run, scheduler: Scheduler) -> None:
    made = await command(
        *("jobs", "add", "--endpoint", "https://example.com/hook", "--method", "PUT", "--header", "X-A=b=c"),
        *("--body", '{"hello": "world"}', "--at", "2090-01-01T00:00:00+02:00", "--set", "redirects=2", "--json"),
    )
    job = await scheduler.get_job(made.json["jobId"])
    request = job.data["request"]
    assert (request["method"], request["headers"], request["body"]) == ("PUT", {"X-A": "b=c"}, {"hello": "world"})
    assert job.run_at.isoformat() == "2089-12-31T22:00:00+00:00"


@pytest.mark.slow
async def test_a_command_waits_for_the_end_of_its_job_and_tells_it_by_its_exit_code(
    command: Run, scheduler: Scheduler
) -> None:
    @scheduler.job("add")
    async def add(a: int) -> int:
        return a + 1

    @scheduler.job("break", retry=1)
    async def fail() -> None:
        raise ValueError("no \x1b[31mway")

    async with scheduler:
        done = await command("jobs", "add", "add", "--data", '{"a": 1}', "--wait", "--json")
        assert (done.json["state"], done.json["result"]) == ("completed", 2)
        failed = await command("jobs", "add", "break", "--wait")
        assert failed.code == 1 and "ValueError: no \\x1b[31mway" in failed.out and "\x1b" not in failed.out


@pytest.mark.slow
async def test_a_name_that_no_worker_has_is_told_with_the_closest(command: Run, scheduler: Scheduler) -> None:
    scheduler.job("report")(lambda: None)
    async with scheduler:
        made = await command("jobs", "add", "repotr")
    assert (made.code, made.err) == (
        0,
        "mainspring: No live worker has a handler for 'repotr': the job waits for one. Did you mean 'report'?\n",
    )


@pytest.mark.slow
async def test_without_a_worker_a_job_and_a_schedule_are_told_to_wait_once(
    command: Run, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    told = "mainspring: No live worker has a handler for 'report': "
    assert (await command("jobs", "add", "report")).err == f"{told}the job waits for one.\n"
    assert (await command("schedules", "add", "report", "--every", "1h")).err == f"{told}its jobs wait for one.\n"


@pytest.mark.slow
async def test_the_log_does_not_repeat_what_a_command_says(
    on_database: Run, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    assert "No live worker" in (await on_database("jobs", "add", "report")).err
    assert caplog.messages == []


@pytest.mark.slow
async def test_many_jobs_are_chosen_by_a_filter_and_changed_by_an_operation(command: Run, scheduler: Scheduler) -> None:
    for _ in range(3):
        await scheduler.schedule("old", delay=3600)
    kept = await scheduler.schedule("new", delay=3600)
    refused = await command("jobs", "cancel", "--name", "old")
    assert refused.code == 2 and "3 jobs will be cancelled" in refused.err and "--yes" in refused.err
    assert await number(scheduler, "cancelled") == 0
    async with scheduler:
        done = await command("jobs", "cancel", "--name", "old", "--yes")
        assert done.code == 0 and "3 jobs changed" in done.err
        [operation] = (await command("operations", "list", "--json")).json
        assert (operation["state"], operation["reason"]) == ("completed", "mainspring jobs cancel")
        followed = await command("operations", "follow", operation["id"])
        assert followed.code == 0 and "3 jobs changed" in followed.err
    assert await number(scheduler, "cancelled") == 3
    assert (await scheduler.get_job(kept.id)).state == "pending"
    assert (await command("jobs", "cancel", "--name", "nothing", "--yes")).code == 1
    assert (await command("jobs", "cancel")).code == 2


@pytest.mark.slow
async def test_the_log_of_a_job_is_shown_until_it_ends(command: Run, scheduler: Scheduler) -> None:
    @scheduler.job("talk")
    async def talk(ctx) -> None:  # type: ignore[no-untyped-def]
        ctx.log("one\x1b[2J")

    async with scheduler:
        job = await scheduler.schedule("talk")
        told = await command("jobs", "tail", job.id)
        await scheduler.wait(job.id)
    assert told.code == 0 and "one\\x1b[2J" in told.out and "completed" in told.out.splitlines()[-1]
    lines = [json.loads(line) for line in (await command("jobs", "tail", job.id, "--json")).out.splitlines()]
    assert [(line["change"], line.get("detail")) for line in lines] == [("log", "one\x1b[2J"), ("completed", None)]


async def test_changes_are_shown_as_they_happen(
    command: Run, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:

    told: list[str] = []

    def hear(line: str, **_: object) -> None:
        told.append(line)
        raise KeyboardInterrupt

    monkeypatch.setattr("mainspring.cli.operate.tail.print", hear, raising=False)
    tailing = asyncio.create_task(command("jobs", "tail", "--name", "seen", "--json"))
    while not tailing.done():
        await scheduler.schedule("unseen")
        await scheduler.schedule("seen")
        await asyncio.wait({tailing}, timeout=0.2)
    assert (await tailing).code == 130
    event = json.loads(told[0])
    assert (event["type"], event["change"], event["name"]) == ("job", "created", "seen")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--delay", "5x"], "--delay: "),
        (["--priority", "99"], "--priority: "),
        (["--data", "{kind}"], "--data is not valid JSON"),
        (["--data", "[1]"], "--data must be a JSON object"),
        (["--data", "@missing.json"], "'missing.json' cannot be read"),
        (["--at", "2030-01-01T00:00"], "--at '2030-01-01T00:00' has no time zone"),
        (["--at", "2030-01-01"], "write 2030-01-01T00:00Z for UTC, or end it with an offset: 2030-01-01T00:00+02:00."),
        (["--at", "tomorrow"], "--at must be an instant such as"),
        (["--guarantee", "exactly-once"], "Did you mean 'exactly_once'?"),
        (["--header", "colon: value"], "--header must be NAME=VALUE"),
        (["--set", "dleay=5m"], "did you mean delay?"),
        (["--retries", "-1"], "--retries: "),
        (["--data", '{"priority": "high"}'], "mainspring: data.priority must be a whole number."),
    ],
)
async def test_a_wrong_option_is_named_and_nothing_is_stored(
    arguments: list[str], sentence: str, on_database: Run, scheduler: Scheduler
) -> None:
    @scheduler.job("report")
    async def report(priority: int = 1) -> None: ...

    await scheduler.start()
    ran = await on_database("jobs", "add", "report", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert sentence in ran.err
    assert await number(scheduler) == 0


async def test_ctrl_c_while_a_command_waits_for_its_job_tells_the_job(
    command: Run, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = Api.get

    def interrupted(api: Api, path: str, **query: Any) -> Any:
        if path.endswith("/wait"):
            raise KeyboardInterrupt
        return get(api, path, **query)

    monkeypatch.setattr(Api, "get", interrupted)
    ran = await command("jobs", "add", "report", "--wait")
    [job] = (await command("jobs", "list", "--json")).json
    assert (ran.code, ran.out) == (130, "") and f"mainspring jobs show {job['id']} shows it." in ran.err


async def test_a_word_that_is_none_of_a_list_is_told_with_the_closest(on_database: Run) -> None:
    ran = await on_database("jobs", "list", "--state", "runing")
    assert ran.code == 2 and "Did you mean 'running'?" in ran.err


@pytest.mark.slow
async def test_a_missing_job_has_an_exit_code_of_its_own(command: Run) -> None:
    for verb in ("show", "cancel", "retry", "run", "explain", "tail"):
        ran = await command("jobs", verb, "6890b1f2c7a4e1d2f3a4b5c6")
        assert (ran.code, ran.out) == (3, "") and "No job has the id" in ran.err
