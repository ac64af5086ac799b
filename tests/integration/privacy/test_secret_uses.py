"""Uses of secrets on their way to the audit log: gathered, written soon, and kept while the log cannot be written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.waiting import eventually
from mainspring import AuditKeyMissing, Scheduler, Unavailable
from mainspring.engine import secret_uses
from mainspring.engine.secret_uses import SecretUses
from mainspring.model.privacy.secrets import SecretUse
from mainspring.store.access.audit import Audit

Make = Callable[..., Scheduler]


def use(job: str, origin: str = "https://a.example:443") -> SecretUse:
    return SecretUse(job, "mainspring:http", "qa", origin)


async def rows(scheduler: Scheduler) -> list[tuple[str, Any]]:
    found = [row for row in reversed(await scheduler.audit.find(limit=200)) if row.target != "first"]
    return [(row.target, row.value_after()) for row in found]


async def proved(scheduler: Scheduler) -> SecretUses:
    """A collector whose first use is written."""
    uses = SecretUses((await inside(scheduler).store()).audit)
    await uses.note("worker:w", "first", use("first"))
    return uses


async def test_uses_are_written_by_themselves_and_those_of_one_place_share_rows(scheduler: Scheduler) -> None:
    uses = await proved(scheduler)
    for number in range(250):
        await uses.note("worker:w", "token", use(f"job-{number}"))
    await uses.note("worker:w", "token", use("other", "https://b.example:8443"))
    await uses.note("worker:w", "signer", use("other"))

    async def written() -> list[tuple[str, Any]] | None:
        found = await rows(scheduler)
        return found if len(found) >= 5 else None

    found = await eventually(written)
    assert [(name, told["origin"], told["queue"], len(told["jobs"])) for name, told in found] == [
        ("token", "https://a.example", "qa", 100),
        ("token", "https://a.example", "qa", 100),
        ("token", "https://a.example", "qa", 50),
        ("token", "https://b.example:8443", "qa", 1),
        ("signer", "https://a.example", "qa", 1),
    ]
    assert [job for name, told in found[:3] for job in told["jobs"]] == [f"job-{number}" for number in range(250)]
    assert (await scheduler.audit.verify()).ok
    await uses.close(5)


async def test_long_ids_of_jobs_are_told_in_full(scheduler: Scheduler) -> None:
    uses = await proved(scheduler)
    ids = [f"{number:04}" + "x" * 900 for number in range(20)]
    for one in ids:
        await uses.note("worker:w", "token", use(one))
    await uses.close(5)
    assert [job for _, told in await rows(scheduler) for job in told["jobs"]] == ids


async def test_uses_are_written_when_the_scheduler_stops(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys={"k": bytes(32)})
    await scheduler.secrets.put("first", "value", origins=["*"])
    await scheduler.secrets.put("token", "value", origins=["*"])
    async with scheduler:
        for name in ("first", "token", "token", "token"):
            await scheduler.secrets.value(name)
    assert [told["times"] for _, told in await rows(make_scheduler())] == [3]


async def test_a_process_without_a_worker_writes_each_use_at_once(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys={"k": bytes(32)})
    await scheduler.secrets.put("token", "value", origins=["*"])
    for times in (1, 2):
        assert await scheduler.secrets.value("token") == "value"
        assert await rows(scheduler) == [("token", {"by": "code", "times": 1})] * times


async def test_a_process_that_has_not_the_key_of_the_audit_log_uses_no_secret(make_scheduler: Make) -> None:
    signing = make_scheduler(keys={"k": bytes(32)}, audit_keys={"a": bytes(32)})
    await signing.secrets.put("token", "value", origins=["*"])
    await signing.secrets.value("token")
    async with make_scheduler(keys={"k": bytes(32)}) as keyless:
        for _ in range(2):
            with pytest.raises(AuditKeyMissing):
                await keyless.secrets.value("token")
    assert len(await rows(signing)) == 1


async def test_while_the_log_cannot_be_written_uses_are_kept_and_beyond_a_bound_none_is_made(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(secret_uses, "MOST_KEPT", 3)
    appended = Audit.append

    async def away(*_: Any) -> Any:
        raise Unavailable("MongoDB is away")

    uses = await proved(scheduler)
    monkeypatch.setattr(Audit, "append", away)
    for number in range(3):
        await uses.note("worker:w", "token", use(f"job-{number}"))
    with pytest.raises(Unavailable):
        await uses.note("worker:w", "token", use("job-3"))
    monkeypatch.setattr(Audit, "append", appended)
    await uses.note("worker:w", "token", use("job-4"))
    await uses.close(5)
    told = [job for _, told in await rows(scheduler) for job in told["jobs"]]
    assert told == ["job-0", "job-1", "job-2", "job-4"]
    monkeypatch.setattr(Audit, "append", away)
    with caplog.at_level(logging.ERROR, "mainspring"):
        await uses.note("worker:w", "token", use("job-5"))
        await uses.close(5)
    assert "1 uses of secrets are missing in the audit log" in caplog.text
