"""What the dashboard's page of jobs costs: with many jobs stored, no request examines more than 2,000 keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Api
from harness.looking import Database
from harness.operating import NOW, fill, job
from harness.profiling import profiled

# Whether an index has ever held an array stays with it, and changes what it costs to read.
pytestmark = pytest.mark.fresh_database

MOST = 2_100
STORED = 2_300
STATES = ("pending", "running", "completed", "failed", "cancelled", "expired", "blocked")
HELD = {"by": "handler", "note": "No worker has its handler.", "since": NOW}


def many() -> list[dict[str, Any]]:
    """Of each state, thousands; and thousands of one name that wait for a handler."""
    documents = [
        job(
            state,
            number,
            name="rare" if number == 0 else f"work{number % 7}",
            lease_until=NOW + timedelta(days=36500, seconds=number),
            run_at=NOW + timedelta(days=36500, seconds=number),
            fingerprint=f"{number % 50:016d}",
            **({"check_at": NOW + timedelta(days=36500, seconds=number)} if state == "blocked" else {}),
        )
        for state in STATES
        for number in range(STORED)
    ]
    waiting = [job("pending", number, name="waits", waiting_for=HELD) for number in range(STORED)]
    for one in waiting:
        del one["ready"]
    return documents + waiting


QUERIES: list[str] = [
    "",
    *(f"state={state}" for state in STATES),
    *(f"state={state}&name=rare" for state in STATES),
    "name=rare",
    "data.number=17",
    "error=nothing",
    "fingerprint=0000000000000007",
    "fingerprint=none",
    "worker=none&state=running",
    "dedupeKey=none",
    "queue=default&state=pending&tag=none",
    "finishedSince=2026-03-01T00:00:00Z&name=none",
    "since=2026-02-01T00:00:00Z",
    "runSince=2027-02-01T00:00:00Z&state=pending",
]


@pytest.mark.slow
async def test_no_request_of_the_page_examines_more_than_two_thousand_keys(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, *many())
    spent: dict[str, tuple[int, int, int]] = {}

    async def cost(what: str, method: str, path: str, **options: Any) -> Any:
        async with profiled(db) as one:
            reply = await api.call(method, path, **options)
        assert reply.status == 200, reply.text
        spent[what] = (one.keys, one.documents, one.scans)
        return reply

    for query in QUERIES:
        path: str | None = f"/api/jobs/search?{query}&limit=100".replace("?&", "?")
        for number in range(3):
            if path is not None:
                page = await cost(f"{query} page {number}", "GET", path)
                assert page.body["complete"] or page.body["searched"]
                following = page.body["next"]
                path = following and f"/api/jobs/search?{query}&limit=100&cursor={following}".replace("?&", "?")
        await cost(f"{query} counts", "GET", f"/api/jobs/counts?{query}")
    await cost("suggestions", "GET", "/api/jobs/suggestions")
    for verb, filter in (("cancel", {"name": "rare"}), ("retry", {"state": "failed"}), ("delete", {"tag": "none"})):
        await cost(verb, "POST", "/api/operations", json={"verb": verb, "filter": filter, "dryRun": True})
    await cost("operations", "GET", "/api/operations")
    too_many = {what: one for what, one in spent.items() if one[0] > MOST or one[1] > MOST or one[2]}
    assert not too_many
