"""Exports: all jobs of a filter as JSON lines or CSV, redacted, safe in a spreadsheet, and ended with their key."""

from __future__ import annotations

import csv
import io
import json

import pytest

from api.conftest import Api
from harness.api_keys import actions, keyed
from harness.looking import Database
from harness.operating import fill, job, jobs
from harness.waiting import eventually

EXPORT = "/api/jobs/export"


async def test_every_job_of_the_filter_is_a_line_in_either_format(api: Api, db: Database) -> None:
    ids = await fill(api.scheduler, db, *jobs(450, "failed"), *jobs(5, "completed"))
    lines = await api.get(EXPORT, params={"state": "failed"})
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line)["id"] for line in lines.text.splitlines()] == ids[:450][::-1]
    table = await api.get(EXPORT, params={"state": "failed", "format": "csv"})
    assert table.headers["content-disposition"] == 'attachment; filename="jobs.csv"'
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["id"] for row in rows] == ids[:450][::-1] and json.loads(rows[0]["data"]) == {"number": 449}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1+1"])
async def test_a_cell_that_a_spreadsheet_would_run_becomes_a_text(api: Api, db: Database, text: str) -> None:
    error = {"type": text, "message": f'{text}"\n=2'}
    await fill(api.scheduler, db, job("failed", name="x", tags=[text], error=error, dedupe_key=text))
    (row,) = csv.DictReader(io.StringIO((await api.get(EXPORT, params={"format": "csv"})).text, newline=""))
    assert row["errorType"] == row["tags"] == row["dedupeKey"] == f"'{text}"
    assert row["errorMessage"] == f"'{text}\"\n=2"


async def test_hidden_values_are_as_in_lists_and_the_audit_log_tells_of_it(api: Api) -> None:
    await api.scheduler.schedule("x", {"password": "hunter2", "plain": "seen"}, delay=60)
    for format in ("jsonl", "csv"):
        text = (await api.get(EXPORT, params={"format": format, "name": "x"})).text
        assert "hunter2" not in text and "[redacted]" in text and "seen" in text
    assert [one for one in await actions(api) if one[0] == "job.export"] == [("job.export", "jobs")] * 2
    (row, _) = [row for row in await api.scheduler.audit.find(limit=10) if row.action == "job.export"]
    assert '"name":"x"' in str(row.after).replace(" ", "").replace("'", '"')
    assert (await api.get(EXPORT, params={"data.password": "hunter2"})).status == 422
    assert (await api.get(EXPORT, params={"format": "xml"})).status == 422


async def test_a_key_with_a_scope_exports_what_is_within_it(api: Api, db: Database) -> None:
    (_, own) = await fill(api.scheduler, db, job("failed"), job("failed", queue="own"))
    mine = await keyed(api, "viewer", queues=["own"])
    lines = (await mine.get(EXPORT)).text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [own]
    assert (await mine.get(EXPORT, params={"worker": "w"})).text == ""


@pytest.mark.slow
async def test_a_stream_ends_with_its_key_and_says_so(api: Api, db: Database) -> None:
    await fill(api.scheduler, db, *(job("failed", n, data={"text": "x" * 10_000}) for n in range(4_000)))
    made = await api.scheduler.api_keys.create("reader", "viewer")
    headers = {"Authorization": f"Bearer {made.text}"}
    async with api.session.get(api.url + EXPORT, headers=headers) as answer:
        assert answer.status == 200
        await answer.content.readline()  # the rest is more than the sockets hold
        await api.scheduler.api_keys.revoke(made.key.id)

        async def is_noticed() -> bool:
            return (await api.with_key(made.text).get("/api/session")).status == 401

        await eventually(is_noticed)
        lines = (await answer.content.read()).decode().splitlines()
    assert len(lines) < 4_000 and "revoked" in json.loads(lines[-1])["incomplete"]
