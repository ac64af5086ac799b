"""One filter finds, counts, exports and operates on the same jobs, whatever it names and however hostile its texts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import keyed
from harness.looking import Database
from harness.operating import NOW, fill, job
from mainspring.errors import ConfigurationError

SEARCH, COUNTS, SUGGESTIONS = "/api/jobs/search", "/api/jobs/counts", "/api/jobs/suggestions"
LATER = NOW + timedelta(hours=2)
DECLINED = {"type": "CardDeclined", "message": "The bank (4711) said: no.* [a+b]"}


def some() -> dict[str, dict[str, Any]]:
    """Jobs that differ in what filters name."""
    return {
        "declined": job("failed", 1, error=DECLINED, fingerprint="f" * 16, name="charge", queue="mail"),
        "broken": job("failed", 2, error={"type": "ValueError", "message": "broken"}, fingerprint="e" * 16),
        "keyed": job("pending", 3, dedupe_key="order-42", tags=["vip"], label="billing"),
        "in a namespace": job("pending", 4, dedupe_key="space\x1forder-43"),
        "running": job("running", 5, worker="w-1"),
        "ran": job("completed", 6, attempts=[{"n": 1, "token": 1, "outcome": "completed", "worker": "w-1"}]),
        "late": job("completed", 7, finished_at=LATER, run_at=LATER, created_at=LATER),
        "of a customer": job("pending", 8, data={"customer": {"id": 42, "vip": True, "name": "42"}}),
        "of a text": job("pending", 9, data={"customer": {"id": "42", "vip": "true"}}),
    }


@pytest.fixture
async def known(api: Api, db: Database) -> dict[str, str]:
    """The ids of some stored jobs, and what they are called here."""
    documents = some()
    ids = await fill(api.scheduler, db, *documents.values())
    return dict(zip(ids, documents, strict=True))


FILTERS: list[tuple[dict[str, str], set[str]]] = [
    ({"error": "carddeclined"}, {"declined"}),
    ({"error": "no.* [A+B]"}, {"declined"}),
    ({"error": "n.*"}, set()),
    ({"error": "broke", "state": "failed"}, {"broken"}),
    ({"error": "broke", "state": "completed"}, set()),
    ({"fingerprint": "f" * 16}, {"declined"}),
    ({"fingerprint": "f" * 16, "queue": "mail"}, {"declined"}),
    ({"fingerprint": "f" * 16, "queue": "other"}, set()),
    ({"dedupeKey": "order-42"}, {"keyed"}),
    ({"dedupeKey": "order-43", "state": "pending"}, {"in a namespace"}),
    ({"dedupeKey": "order-4"}, set()),
    ({"dedupeKey": "rder-42"}, set()),
    ({"label": "billing"}, {"keyed"}),
    ({"label": "bill"}, set()),
    ({"worker": "w-1"}, {"running", "ran"}),
    ({"worker": "w-1", "state": "running"}, {"running"}),
    ({"finishedSince": "2026-03-01T13:00:00Z"}, {"late"}),
    ({"finishedUntil": "2026-03-01T13:00:00Z"}, {"declined", "broken", "ran"}),
    ({"finishedUntil": "2026-03-01T13:00:00Z", "state": "failed"}, {"declined", "broken"}),
    ({"runUntil": "2027-01-01T00:00:00Z"}, {"late"}),
    ({"runSince": "2026-03-01T13:00:00Z", "runUntil": "2026-03-01T15:00:00Z", "state": "completed"}, {"late"}),
    ({"since": "2026-03-01T13:00:00Z", "state": "completed"}, {"late"}),
    ({"data.customer.id": "42"}, {"of a customer", "of a text"}),
    ({"data.customer.id": '"42"'}, {"of a text"}),
    ({"data.customer.vip": "true", "state": "pending"}, {"of a customer", "of a text"}),
    ({"data.customer.name": "42", "tag": "vip"}, set()),
    ({"tag": "vip", "dedupeKey": "order-42", "queue": "default"}, {"keyed"}),
]


@pytest.mark.parametrize(("query", "expected"), FILTERS, ids=[str(query) for query, _ in FILTERS])
@pytest.mark.slow
async def test_a_filter_finds_counts_and_exports_the_same_jobs(
    api: Api, known: dict[str, str], query: dict[str, str], expected: set[str]
) -> None:
    found = await api.get(SEARCH, params=query)
    assert {known[one["id"]] for one in found.data} == expected and found.body["complete"]
    counted = {one["state"]: one["count"] for one in (await api.get(COUNTS, params=query)).data}
    state = query.get("state")
    assert (sum(counted.values()) if state is None else counted[state]) == len(expected)
    exported = await api.get("/api/jobs/export", params=query | {"format": "csv"})
    assert len(exported.text.splitlines()) == 1 + len(expected)


async def test_an_operation_means_what_the_same_filter_finds(api: Api, known: dict[str, str]) -> None:
    for filter in ({"error": "CARD"}, {"fingerprint": "f" * 16}, {"worker": "w-1", "state": "completed"}):
        found = await api.get(SEARCH, params=filter)
        meant = await api.post("/api/operations", {"verb": "retry", "filter": filter, "dryRun": True})
        assert [one["id"] for one in meant.data["sample"]] == [one["id"] for one in found.data] != []
        made = await api.post("/api/operations", {"verb": "retry", "filter": filter, "reason": "a test"})
        assert made.status == 202 and made.data["filter"].items() >= filter.items()


async def test_the_library_lists_by_the_same_filter(api: Api, known: dict[str, str]) -> None:
    scheduler = api.scheduler
    assert [known[one.id] async for one in scheduler.jobs(error="declined")] == ["declined"]
    assert {known[one.id] async for one in scheduler.jobs(worker="w-1")} == {"running", "ran"}
    assert [known[one.id] for one in (await scheduler.search(data={"customer.id": 42})).jobs] == ["of a customer"]
    assert {one.state: one.count for one in await scheduler.count(queue="mail")}["failed"] == 1
    with pytest.raises(ConfigurationError, match="no filter 'nam'"):
        await scheduler.search(nam="x")  # type: ignore[call-arg]
    for wrong in ("", "x" * 1001, "a\0b", 7):
        with pytest.raises(ConfigurationError, match="error must be a text"):
            await scheduler.search(error=wrong)  # type: ignore[arg-type]


async def test_counts_leave_the_state_of_the_filter_out(api: Api, known: dict[str, str]) -> None:
    counted = (await api.get(COUNTS, params={"state": "failed"})).data
    assert {one["state"]: (one["count"], one["capped"]) for one in counted} == {
        "blocked": (0, False),
        "running": (1, False),
        "expired": (0, False),
        "cancelled": (0, False),
        "failed": (2, False),
        "pending": (4, False),
        "completed": (2, False),
    }


async def test_suggestions_are_what_jobs_have(api: Api, known: dict[str, str]) -> None:
    assert (await api.get(SUGGESTIONS)).data == {
        "names": ["charge", "work"],
        "queues": ["default", "mail"],
        "tags": ["vip"],
        "errors": ["CardDeclined", "ValueError"],
    }


async def test_a_key_with_a_scope_learns_neither_workers_nor_what_is_out_of_it(api: Api, known: dict[str, str]) -> None:
    mine = await keyed(api, "operator", queues=["mail"])
    assert (await mine.get(SUGGESTIONS)).data == {
        "names": ["charge"],
        "queues": ["mail"],
        "tags": [],
        "errors": ["CardDeclined"],
    }
    assert (await mine.get(SEARCH, params={"worker": "w-1"})).data == []
    assert (await mine.get(COUNTS, params={"worker": "w-1"})).data == []
    assert sum(one["count"] for one in (await mine.get(COUNTS)).data) == 1
    asked = {"verb": "retry", "filter": {"worker": "w-1"}, "dryRun": True}
    assert (await mine.post("/api/operations", asked)).status == 403


async def test_more_running_jobs_than_are_sorted_at_once_are_all_found(
    api: Api, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.store.views.search.SCANNED", 20)
    leases = [job("running", n, lease_until=LATER + timedelta(seconds=n)) for n in range(50)]
    ids = await fill(api.scheduler, db, *leases)
    found: list[str] = []
    params = {"state": "running", "limit": "7"}
    while True:
        page = await api.get(SEARCH, params=params)
        found += [one["id"] for one in page.data]
        if page.body["next"] is None:
            break
        params["cursor"] = page.body["next"]
    assert sorted(found) == sorted(ids)


@pytest.mark.parametrize("most", [20, 200])
async def test_jobs_without_a_handler_are_all_found_however_many_there_are(
    api: Api, db: Database, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("mainspring.store.views.search.SCANNED", most)
    held = {"by": "handler", "note": "x", "since": NOW}
    documents = [job("pending", n, waiting_for=held) for n in range(50)]
    for one in documents:
        del one["ready"]
    ids = await fill(api.scheduler, db, *documents, *(job("completed", n) for n in range(50)))
    found: list[str] = []
    params = {"state": "pending", "limit": "7"}
    for _ in range(40):
        page = await api.get(SEARCH, params=params)
        found += [one["id"] for one in page.data]
        assert page.body["complete"] or page.body["searched"]
        if page.body["next"] is None:
            break
        params["cursor"] = page.body["next"]
    assert found == sorted(ids[:50], reverse=True)
