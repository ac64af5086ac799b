"""The audit log over HTTP: read page by page, and checked."""

from __future__ import annotations

import pytest

from api.conftest import Api
from mainspring import AuditEntry
from mainspring.client.service_backend import ServiceBackend
from mainspring.model.access.api_keys import Role


@pytest.fixture
async def log(api: Api) -> Api:
    """A service with seven rows in its log."""
    await ServiceBackend(api.scheduler).note_change(
        *(AuditEntry("ada" if n % 2 else "bob", "job.cancel", f"job{n}", "127.0.0.1", {"n": n}) for n in range(1, 8))
    )
    return api


async def test_the_log_is_read_newest_first_page_by_page(log: Api) -> None:
    first = await log.get("/api/audit?limit=3")
    second = await log.get(f"/api/audit?limit=3&before={first.body['next']}")
    third = await log.get(f"/api/audit?limit=3&before={second.body['next']}")
    assert [[row["n"] for row in page.data] for page in (first, second, third)] == [[7, 6, 5], [4, 3, 2], [1]]
    assert third.body["next"] is None
    row = first.data[0]
    assert (row["actor"], row["action"], row["target"], row["before"], row["after"]) == (
        *("ada", "job.cancel", "job7", {"n": 7}, None),
    )
    assert row["prev"] == first.data[1]["hash"] and row["at"].endswith("Z")


async def test_the_log_is_asked_for_what_somebody_did_and_what_was_done_to_something(log: Api) -> None:
    assert [row["n"] for row in (await log.get("/api/audit?actor=bob")).data] == [6, 4, 2]
    assert [row["n"] for row in (await log.get("/api/audit?target=job3")).data] == [3]
    assert (await log.get("/api/audit?actor[$ne]=x&target=nothing")).status == 422


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "before=0", "before=x", "before=99999999999999999999", "actor="]
)
async def test_what_makes_no_sense_is_refused(log: Api, query: str) -> None:
    assert (await log.get(f"/api/audit?{query}")).status == 422


async def test_a_row_that_was_changed_is_named(log: Api) -> None:
    good = (await log.get("/api/audit/verify")).data
    assert (good["ok"], good["checked"], good["broken"], good["last"]["n"]) == (True, 7, None, 7)
    known = f"knownN=7&knownHash={good['last']['hash']}"
    assert (await log.get(f"/api/audit/verify?{known}")).data["ok"]
    rows = log.scheduler.client.get_default_database()["jobs.audit"]
    await rows.update_one({"_id": 4}, {"$set": {"actor": "eve"}})
    bad = (await log.get("/api/audit/verify")).data
    assert (bad["ok"], bad["checked"], bad["broken"], bad["reason"]) == (False, 3, 4, "row 4 was changed")
    assert (await log.get("/api/audit/verify?first=5")).data["ok"]


async def test_a_log_that_was_written_anew_does_not_pass_through_what_is_known(log: Api) -> None:
    reply = await log.get(f"/api/audit/verify?knownN=7&knownHash={'0' * 64}")
    assert (reply.data["ok"], reply.data["broken"]) == (False, 7)
    assert (await log.get("/api/audit/verify?knownN=7")).status == 422
    none = await log.get("/api/audit/verify?first=5&last=3")
    assert (none.status, none.body["detail"]) == (422, "last, 3, is before first, 5; there are no rows between them.")


async def test_the_log_is_for_admins_who_reach_everything(log: Api) -> None:
    cases: list[tuple[Role, list[str] | None, int]] = [("operator", None, 403), ("admin", ["acme"], 403)]
    for role, scope, status in [*cases, ("admin", None, 200)]:
        key = await log.scheduler.api_keys.create("k", role, queues=scope)
        for path in ("/api/audit", "/api/audit/verify"):
            assert (await log.with_key(key.text).get(path)).status == status


async def test_the_log_is_filtered_by_action_and_time(log: Api) -> None:
    await ServiceBackend(log.scheduler).note_change(AuditEntry("ada", "queue.pause", "mail"))
    (pause,) = (await log.get("/api/audit?action=queue.pause")).data
    assert pause["target"] == "mail"
    assert len((await log.get("/api/audit?action=job.*")).data) == 7
    assert (await log.get(f"/api/audit?until={pause['at']}&action=queue.*")).data == []
    assert (await log.get("/api/audit?since=2100-01-01T00:00:00Z")).data == []
    for query in ("action=*", "since=yesterday", "since=2026-01-01T00:00:00"):
        assert (await log.get(f"/api/audit?{query}")).status == 422
