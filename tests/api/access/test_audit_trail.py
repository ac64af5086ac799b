"""What the service writes into the audit log beside changes: refused keys, sessions and reads, within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from api.conftest import Api, serving
from harness.api_keys import actions, keyed
from harness.waiting import eventually
from mainspring import AuditEntry, AuditKeyMissing, Scheduler
from mainspring.api.audit import trail as module
from mainspring.api.audit.trail import Trail
from mainspring.api.server import Server
from mainspring.api.settings import service_settings
from mainspring.client.service_backend import ServiceBackend

Make = Callable[..., Scheduler]
WRONG = f"ms_{'a' * 12}_{'b' * 43}"


async def test_a_refused_key_is_written_down_with_its_id_and_its_address(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    await api.with_key(WRONG).get("/api/jobs")
    await api.with_key("nonsense").get("/api/jobs")
    rows = await api.scheduler.audit.find()
    assert [(row.actor, row.action, row.target, row.address) for row in rows] == [
        ("unknown", "key.refused", "unreadable", "127.0.0.1"),
        ("unknown", "key.refused", "a" * 12, "127.0.0.1"),
    ]
    assert f"An API key was refused: {'a' * 12}, from 127.0.0.1" in caplog.text
    assert "b" * 43 not in f"{rows}{caplog.text}"


async def test_a_revoked_key_that_is_used_is_written_down(api: Api) -> None:
    admin, other = await keyed(api), await keyed(api)
    key = other.headers["Authorization"].split("_")[1]
    await api.scheduler.api_keys.revoke(key)
    assert (await other.get("/api/jobs")).status == 401
    assert await actions(admin) == [("key.refused", key)]


async def test_many_refused_keys_leave_few_rows_and_the_number_of_those_left_out(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler()
    async with serving(scheduler, requests_per_minute=100_000) as api:
        wrong = api.with_key(WRONG)
        await asyncio.gather(*(wrong.get("/api/jobs") for _ in range(25)))
        assert [action for action, _ in await actions(api)] == ["key.refused"] * 5
        assert caplog.text.count("An API key was refused") == 5
    summary, *rest = await scheduler.audit.find()
    assert (summary.actor, summary.action, summary.target) == ("service", "key.refused", "*")
    assert summary.value_after() == {"leftOut": 20, "of": {"127.0.0.1": 20}}
    assert len(rest) == 5


async def test_a_key_is_refused_as_ever_when_the_row_cannot_be_written(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*entries: object) -> None:
        raise AuditKeyMissing("a")

    monkeypatch.setattr(ServiceBackend, "note_change", away)
    assert (await api.with_key(WRONG).get("/api/jobs")).status == 401
    assert "was not added to the audit log" in caplog.text


async def test_a_viewer_that_logs_in_all_the_time_leaves_few_rows(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    async with serving(scheduler) as api:
        viewer = await keyed(api, "viewer")
        for _ in range(15):
            assert (await viewer.post("/api/session")).status == 201
        assert (await viewer.delete("/api/session")).status == 204
        assert [action for action, _ in await actions(api)] == ["session.open"] * 10
    [summary] = await scheduler.audit.find(limit=1)
    assert (summary.action, summary.value_after()["leftOut"]) == ("session", 6)


async def test_reading_the_audit_log_is_written_down_once_an_hour_for_each_key(api: Api) -> None:
    one, other = await keyed(api), await keyed(api)
    for caller in (one, one, other):
        await caller.get("/api/audit")
        await caller.get("/api/audit/verify")
    rows = await api.scheduler.audit.find()
    assert [(row.action, row.target, row.actor[:4]) for row in rows] == [("audit.read", "audit", "key:")] * 2
    assert len({row.actor for row in rows}) == 2


async def test_the_end_of_the_audit_log_is_in_the_log_when_the_service_starts(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler()
    [row] = await ServiceBackend(scheduler).note_change(AuditEntry("ada", "job.cancel", "job1"))
    with caplog.at_level(logging.INFO, "mainspring.audit"):
        async with serving(scheduler):
            await eventually(lambda: f"The audit log ends at 1:{row.hash}" in caplog.text)


async def test_the_end_of_the_audit_log_is_told_every_hour(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asleep = [0.0], asyncio.Event()

    async def sleep(seconds: float) -> None:
        now[0] += 600.0
        if now[0] > 7200.0:
            asleep.set()
            await asyncio.Event().wait()

    scheduler = make_scheduler()
    await ServiceBackend(scheduler).note_change(AuditEntry("ada", "job.cancel", "job1"))
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "_sleep", sleep)
    with caplog.at_level(logging.INFO, "mainspring.audit"):
        async with Trail(scheduler).kept():
            await asleep.wait()
    assert caplog.text.count("The audit log ends at 1:") == 3


async def test_a_service_without_the_key_of_the_log_does_not_start(make_scheduler: Make) -> None:
    await ServiceBackend(make_scheduler(audit_keys={"a": b"k" * 32})).note_change(
        AuditEntry("ada", "job.cancel", "job1")
    )
    server = Server(make_scheduler(), service_settings(port=0))
    with pytest.raises(AuditKeyMissing, match="MAINSPRING_AUDIT_KEYS"):
        await server.start()


async def test_a_service_warns_of_a_log_that_is_not_signed_or_not_sealed(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    plain = make_scheduler()

    async def warnings(scheduler: Scheduler) -> str:
        caplog.clear()
        trail = Trail(scheduler)
        trail.warn(await trail.check())
        return caplog.text

    assert "The audit log is not signed" in await warnings(plain)
    await ServiceBackend(plain).note_change(AuditEntry("ada", "job.cancel", "job1"))
    signing = make_scheduler(audit_keys={"a": b"k" * 32})
    assert "`mainspring audit seal` accepts them" in await warnings(signing)
    await signing.audit.seal("ada")
    assert await warnings(signing) == ""
