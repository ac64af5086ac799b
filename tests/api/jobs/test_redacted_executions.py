"""What must not be seen of a job is not seen in its executions, whatever worker ran it and whatever was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from api.conftest import serving
from api.jobs.test_executions import ended, executions, running
from harness.sinks import Received, Sink, reply
from mainspring import JobContext, Scheduler

Make = Callable[..., Scheduler]
PASSWORD = "hunter2-hunter2"


async def test_what_a_worker_without_redaction_has_kept_is_not_shown_by_a_service_with_it(make_scheduler: Make) -> None:
    careless = make_scheduler(redact=[])

    @careless.job("login", retry=1)
    async def login(ctx: JobContext, password: str) -> None:
        ctx.log(f"with {password}")
        raise ValueError(f"refused: {password}")

    async with careless, serving(make_scheduler()) as api:
        made = (await api.post("/api/jobs", {"name": "login", "data": {"password": PASSWORD}})).data["jobId"]
        job = await careless.wait(made, timeout=60)
        (execution,) = await executions(api, made)
        failures = await api.get("/api/observability/failures")
    assert PASSWORD in str(job.error) and PASSWORD in job.attempts[0].log[0]
    assert (execution["errorMessage"], execution["log"]) == ("refused: [redacted]", ["with [redacted]"])
    assert made in failures.text and PASSWORD not in failures.text


async def test_a_redacted_field_that_a_target_hands_back_is_not_kept(make_scheduler: Make) -> None:
    async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(200 if request.path == "/good" else 404, request.body))

    body = {"a": "{{data.password}}", "b": "{{data.note}}", "token": f"{PASSWORD}-too"}
    data = {"password": PASSWORD, "note": "a note"}
    async with Sink(answers=[echo]) as sink, running(make_scheduler()) as api:
        for path in ("good", "bad"):
            hook = {"endpoint": f"{sink.url}/{path}", "body": body, "data": data}
            made = (await api.post("/api/jobs", hook)).data["jobId"]
            job = await ended(api, made)
            (execution,) = await executions(api, made)
            assert PASSWORD not in f"{job.result} {job.error} {job.attempts} {execution}"
            assert "a note" in execution["responseBody"]
    assert all(PASSWORD.encode() in one.body for one in sink.received)


@pytest.mark.slow
async def test_a_credential_in_a_url_or_a_header_is_neither_shown_nor_kept(make_scheduler: Make) -> None:
    async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(
            reply(200, repr((request.line, request.headers)).encode(), Location=f"https://a.example{request.path}")
        )

    async with Sink(answers=[echo]) as sink, running(make_scheduler(redact=[])) as api:
        hook = {
            "endpoint": f"{sink.url}/?token={PASSWORD}&page=2",
            "query": {"sig": PASSWORD},
            "headers": {"Ocp-Apim-Subscription-Key": PASSWORD, "Idempotency-Key": "seen"},
        }
        made = (await api.post("/api/jobs", hook)).data["jobId"]
        job = await ended(api, made)
        await api.post("/api/jobs", {**hook, "every": 3_600_000, "id": "hourly"})
        await api.put("/api/jobs/hourly", {"priority": 2})
        paths = (
            *("/api/jobs", f"/api/jobs/{made}", f"/api/jobs/{made}/detail", f"/api/jobs/{made}/executions"),
            *("/api/jobs/search", "/api/schedules", "/api/schedules/hourly", "/api/audit", "/api/v1/jobs"),
        )
        told = [(await api.get(path)).text for path in paths]
    assert all(PASSWORD.encode() not in str(one).encode() for one in (*told, job.result))
    assert job.result["url"] == f"{sink.url}/?token=[redacted]&page=2&sig=[redacted]"
    assert "page=2" in told[0] and "seen" in told[0]
    assert sink.received[0].header("Ocp-Apim-Subscription-Key") == PASSWORD
