"""`mainspring flows`: flows are listed, shown, cancelled and retried by commands, which leave rows in the audit log."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harness.waiting import eventually
from mainspring import JobContext, Scheduler
from mainspring.cli.app import run

Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def command(uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command of `mainspring flows` on the test's database: its exit status, its output and its errors."""
    monkeypatch.chdir(tmp_path)

    async def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mainspring", "flows", *arguments, "--uri", uri])
        capsys.readouterr()
        status = await asyncio.to_thread(run)
        told = capsys.readouterr()
        return status, told.out, told.err

    return call


async def started(scheduler: Scheduler) -> str:
    flow = scheduler.flow("nightly")
    flow.add("load", after=flow.add("extract"))
    return (await flow.start()).id


@pytest.mark.slow
async def test_flows_are_listed_and_shown(scheduler: Scheduler, command: Run) -> None:
    assert (await command("list"))[1:] == ("", "There are no flows yet.\n")
    flow_id = await started(scheduler)
    status, told, _ = await command("list")
    assert status == 0 and told.splitlines()[1].split()[:4] == [flow_id, "nightly", "declared", "pending"]
    status, told, _ = await command("list", "--json", "--state", "pending", "--name", "nightly")
    assert status == 0 and [flow["id"] for flow in json.loads(told)] == [flow_id]
    assert (await command("list", "--name", "other"))[1:] == ("", "No flow matches.\n")
    status, told, _ = await command("show", flow_id)
    assert status == 0 and told.startswith("nightly (declared) is pending: no jobs yet\n")
    assert "The flow has not stored it yet." in told
    status, told, _ = await command("show", flow_id, "--json")
    assert [node["after"] for node in json.loads(told)["nodes"]] == [[], ["extract"]]


@pytest.mark.slow
async def test_a_flow_is_cancelled_and_an_ended_one_is_not_retried(scheduler: Scheduler, command: Run) -> None:
    flow_id = await started(scheduler)
    status, told, _ = await command("retry", flow_id)
    assert status == 0 and " is pending: " in told
    status, told, _ = await command("cancel", flow_id, "--reason", "not needed")
    assert status == 0 and " is cancelled: " in told and "not needed" in told
    status, _, errors = await command("retry", flow_id)
    assert status != 0 and "cancelled" in errors
    rows = [(row.action, row.target) for row in await scheduler.audit.find()]
    assert rows == [("flow.cancel", flow_id), ("flow.retry", flow_id)]


async def test_a_signal_is_stored_for_a_job(scheduler: Scheduler, command: Run) -> None:
    job = await scheduler.schedule("approve", delay=60)
    status, _, errors = await command("signal", job.id, "approved", "--payload", '{"by": "ann"}')
    assert status == 0 and f"the job {job.id} is pending" in errors
    stored = await scheduler.client.get_default_database()["jobs.signals"].find_one({}, hint="_id_")
    assert stored is not None and (stored["name"], stored["payload"]) == ("approved", {"by": "ann"})
    status, _, errors = await command("signal", job.id, "approved", "--payload", "yes")
    assert status != 0 and "JSON" in errors


async def test_a_job_that_waits_for_a_signal_is_shown_with_the_commands_that_tell_and_send_it(
    scheduler: Scheduler, command: Run
) -> None:
    @scheduler.job("approve")
    async def approve(ctx: JobContext) -> None:
        await ctx.wait_for("approved by boss")

    @scheduler.job("order")
    async def order(ctx: JobContext) -> None:
        await ctx.call("ask", "approve")

    await scheduler.start()
    alone, parent = await scheduler.schedule("approve"), await scheduler.schedule("order")
    child = f"{parent.id}.ask"

    async def blocked() -> bool:
        jobs = scheduler.client.get_default_database()["jobs"]
        found = [str(one["_id"]) async for one in jobs.find({"check_at": {"$exists": True}}, hint="check")]
        return {alone.id, child} <= set(found)

    await eventually(blocked, 60)
    status, told, hint = await command("show", alone.id)
    assert status == 0 and told.startswith("approve (dynamic) is blocked: no jobs yet\n")
    assert f"mainspring jobs explain {alone.id} tells what for" in hint
    assert f"mainspring flows signal {alone.id} NAME sends" in hint
    for verb in ("show", "cancel", "retry"):
        status, _, errors = await command(verb, child)
        assert status != 0 and f"is a part of the flow '{parent.id}'. Its handler waits for the signal" in errors
        assert f"mainspring flows signal {child} 'approved by boss' sends it." in errors
        assert f"mainspring jobs explain {child} shows the job." in errors
    for one in (alone.id, child):
        await scheduler.signal(one, "approved by boss")
    await alone.wait(60)
    await parent.wait(60)
    assert "jobs explain" not in (await command("show", alone.id))[2], "it has ended"
    assert "signal" not in (await command("show", child))[2], "it has ended"


@pytest.mark.slow
async def test_an_unknown_flow_is_an_error_in_words(command: Run) -> None:
    for verb in ("show", "cancel", "retry"):
        status, _, errors = await command(verb, "6890b1f2c7a4e1d2f3a4b5c6")
        assert status != 0 and "No flow has the id" in errors
