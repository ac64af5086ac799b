"""`mainspring audit`: the log is listed, checked and sealed by commands, which tell by their exit status."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harness.looking import Database
from mainspring import AuditEntry, Scheduler
from mainspring.cli.app import run
from mainspring.client.service_backend import ServiceBackend
from mainspring.store.privacy.keyring import AUDIT_KEYS_VARIABLE, new_key

Run = Callable[..., Awaitable[tuple[int, str, str]]]
KEY = new_key("2030a")


@pytest.fixture
def command(uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command of `mainspring audit` on the test's database: its exit status, its output and its errors."""
    monkeypatch.chdir(tmp_path)

    async def call(*arguments: str, key: str | None = KEY) -> tuple[int, str, str]:
        monkeypatch.delenv(AUDIT_KEYS_VARIABLE, raising=False)
        if key is not None:
            monkeypatch.setenv(AUDIT_KEYS_VARIABLE, key)
        monkeypatch.setattr(sys, "argv", ["mainspring", *arguments, "--uri", uri])
        capsys.readouterr()
        status = await asyncio.to_thread(run)
        told = capsys.readouterr()
        return status, told.out, told.err

    return call


async def write(make_scheduler: Callable[..., Scheduler], count: int = 5, key: str | None = KEY) -> None:
    key_id, _, text = (key or "").partition(":")
    scheduler = make_scheduler(audit_keys={key_id: text} if key else None)
    await ServiceBackend(scheduler).note_change(
        *(AuditEntry(f"key:{n}", "job.cancel", f"job{n}", "::1", n) for n in range(count))
    )
    await scheduler.stop()


@pytest.mark.slow
async def test_a_log_in_order_is_said_to_be_so(make_scheduler: Callable[..., Scheduler], command: Run) -> None:
    await write(make_scheduler)
    status, head, _ = await command("audit", "head")
    assert (status, head[:2], len(head)) == (0, "5:", 67)
    for known in ((), ("--known", head.strip())):
        status, told, _ = await command("audit", "verify", *known)
        assert (status, told) == (0, f"OK: 5 rows, signed with a key. The last one is {head}")
    status, told, _ = await command("audit", "verify", "--json")
    n, _, digest = head.strip().partition(":")
    verdict = json.loads(told)
    assert verdict["last"].pop("at").endswith("Z")
    assert verdict == {
        "ok": True,
        "checked": 5,
        "broken": None,
        "reason": "",
        "keyed": True,
        "last": {"n": int(n), "hash": digest},
    }


@pytest.mark.slow
async def test_the_first_row_that_is_broken_is_told_with_exit_status_1(
    make_scheduler: Callable[..., Scheduler], command: Run, db: Database
) -> None:
    await write(make_scheduler)
    await db["jobs.audit"].update_one({"_id": 3}, {"$set": {"actor": "eve"}})
    assert await command("audit", "verify") == (1, "BROKEN at row 3: row 3 was changed. 2 rows before are fine.\n", "")
    status, told, _ = await command("audit", "verify", "--json")
    assert (status, json.loads(told)["broken"], json.loads(told)["ok"]) == (1, 3, False)
    assert (await command("audit", "verify", "--first", "4"))[0] == 0
    assert (await command("audit", "verify", "--last", "2"))[0] == 0


async def test_a_log_that_does_not_pass_through_the_known_end_is_told(
    make_scheduler: Callable[..., Scheduler], command: Run, db: Database
) -> None:
    await write(make_scheduler, key=None)
    status, told, _ = await command("audit", "verify", "--known", f"9:{'a' * 64}", key=None)
    assert (status, told.partition(":")[0]) == (1, "BROKEN at row 6")
    status, _, told = await command("audit", "verify", "--known", "9:short")
    assert status == 2 and "--known takes a row's number and its hash" in told


async def test_without_the_key_a_signed_log_cannot_be_checked(
    make_scheduler: Callable[..., Scheduler], command: Run
) -> None:
    await write(make_scheduler)
    status, told, _ = await command("audit", "verify", key=None)
    assert status == 1 and "'2030a', which this process does not have" in told


@pytest.mark.slow
async def test_rows_from_before_the_key_are_sealed_by_a_command(
    make_scheduler: Callable[..., Scheduler], command: Run, scheduler: Scheduler
) -> None:
    await write(make_scheduler, key=None)
    status, told, _ = await command("audit", "verify", key=None)
    assert status == 0 and "not signed" in told
    assert (await command("audit", "verify"))[0] == 1
    assert (await command("audit", "seal", key=None))[0] == 2
    assert await command("audit", "seal", "--reason", "as known") == (
        0,
        "",
        "mainspring: The rows up to 6 are accepted.\n",
    )
    assert (await command("audit", "verify"))[0] == 0
    [row] = await scheduler.audit.find(limit=1)
    assert (row.action, row.actor.partition(":")[0], row.value_after()) == ("audit.seal", "cli", {"reason": "as known"})


async def test_rows_are_listed_newest_first(make_scheduler: Callable[..., Scheduler], command: Run) -> None:
    await write(make_scheduler)
    _, told, _ = await command("audit", "list", "--limit", "2")
    lines = [line.split() for line in told.splitlines()]
    assert lines[0] == ["ROW", "AT", "ACTOR", "ADDRESS", "ACTION", "TARGET"]
    assert [(line[0], line[2], line[3], line[4], line[5]) for line in lines[1:]] == [
        ("5", "key:4", "::1", "job.cancel", "job4"),
        ("4", "key:3", "::1", "job.cancel", "job3"),
    ]
    _, told, _ = await command("audit", "list", "--json", "--actor", "key:2")
    [row] = json.loads(told)
    assert (row["n"], row["actor"], row["before"], row["key"]) == (3, "key:2", 2, "2030a")


@pytest.mark.slow
async def test_a_command_without_the_key_changes_nothing_that_it_could_not_write_down(
    make_scheduler: Callable[..., Scheduler], command: Run, scheduler: Scheduler
) -> None:
    await write(make_scheduler)
    status, _, told = await command("keys", "create", "ops", key=None)
    assert status == 2 and "'2030a', which this process does not have" in told
    assert await scheduler.api_keys.all() == []
    assert (await command("keys", "create", "ops"))[0] == 0
    assert (await command("audit", "verify"))[0] == 0
