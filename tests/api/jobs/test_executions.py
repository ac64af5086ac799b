"""Webhooks and mails as they are run, and what their executions tell."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from api.conftest import Api, serving
from harness.mail import smtp_sink
from harness.sinks import Received, Sink, reply
from harness.waiting import eventually
from mainspring import Job, Scheduler
from mainspring.api.settings import service_settings
from mainspring.client.outgoing.builtin_jobs import add_builtin_handlers

Make = Callable[..., Scheduler]
KEYS = {"k": "A" * 43 + "="}


@contextlib.asynccontextmanager
async def running(scheduler: Scheduler, **settings: Any) -> AsyncIterator[Api]:
    """A service with a worker beside it, as `mainspring up` has them."""
    given = {"http_allow": "127.0.0.1", **settings}
    add_builtin_handlers(scheduler, service_settings(**given))
    async with serving(scheduler, **given) as api, scheduler:
        yield api


async def ended(api: Api, job_id: str) -> Job:
    return await api.scheduler.wait(job_id, timeout=60)


async def executions(api: Api, thing_id: str, limit: int = 20) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get(f"/api/jobs/{thing_id}/executions?limit={limit}")).data
    return found


@pytest.mark.slow
async def test_a_webhook_is_called_as_it_was_asked_for_and_its_answer_is_kept(make_scheduler: Make) -> None:
    async with Sink(answers=[reply(200, b'{"status":"ok"}', X_Seen="1")]) as sink, running(make_scheduler()) as api:
        body = {
            "endpoint": f"{sink.url}/hook/{{{{data.user}}}}",
            "headers": {"X-Job": "{{job.id}}"},
            "query": {"at": "{{scheduled_at}}"},
            "body": {"event": "scheduled_task", "timestamp": "{{timestamp}}", "attempt": "{{attempt}}"},
            "data": {"user": "ann"},
        }
        made = (await api.post("/api/jobs", body, headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})).data
        job = await ended(api, made["jobId"])
        shown = (await api.get(f"/api/jobs/{made['jobId']}")).data
        (execution,) = await executions(api, made["jobId"])
    (received,) = sink.received
    assert received.line.startswith("POST /hook/ann?at=")
    sent = json.loads(received.body)
    assert (sent["event"], sent["attempt"]) == ("scheduled_task", 1) and sent["timestamp"].endswith("Z")
    assert (received.header("X-Job"), received.header("webhook-id")) == (made["jobId"], f"msg_{made['jobId']}")
    assert (received.header("Mainspring-Fencing-Token"), received.header("traceparent")) == (
        "1",
        f"00-{'a' * 32}-{'b' * 16}-01",
    )
    assert job.state == "completed" and shown["result"]["status"] == 200
    assert shown["result"]["headers"]["x-seen"] == "1" and shown["lastRunAt"]
    assert (execution["status"], execution["responseCode"]) == ("success", 200)
    assert (execution["responseBody"], execution["errorMessage"], execution["attempt"]) == ('{"status":"ok"}', None, 1)
    assert execution["jobId"] == made["jobId"] and execution["_id"] and execution["duration"] >= 0
    assert execution["startedAt"] <= execution["completedAt"] and execution["scheduledAt"] == shown["runAt"]


async def test_each_try_tells_what_was_answered_the_newest_first(make_scheduler: Make) -> None:
    answers: list[Any] = [reply(503, b"busy"), reply(500, b"broken"), reply(200, b"fine")]
    async with Sink(answers=answers) as sink, running(make_scheduler()) as api:
        made = (await api.post("/api/jobs", {"endpoint": sink.url, "retryDelay": 0})).data
        await ended(api, made["jobId"])
        tries = await executions(api, made["jobId"])
        assert await executions(api, made["jobId"], limit=1) == tries[:1]
    told = [(one["attempt"], one["status"], one["responseCode"], one["responseBody"]) for one in tries]
    assert told == [(3, "success", 200, "fine"), (2, "failure", 500, "broken"), (1, "failure", 503, "busy")]
    assert "answered 500" in tries[1]["errorMessage"] and tries[0]["errorMessage"] is None


async def test_each_try_tells_when_it_was_due(make_scheduler: Make) -> None:
    async with Sink(answers=[reply(503), reply(200)]) as sink, running(make_scheduler()) as api:
        made = (await api.post("/api/jobs", {"endpoint": sink.url, "retryDelay": 50})).data
        await ended(api, made["jobId"])
        once = (await api.get(f"/api/jobs/{made['jobId']}")).data
        await api.post(f"/api/jobs/{made['jobId']}/retry")
        await eventually(lambda: _tried(api, made["jobId"], 3))
        again = (await api.get(f"/api/jobs/{made['jobId']}")).data
        tries = await executions(api, made["jobId"])
        detail = (await api.get(f"/api/jobs/{made['jobId']}/detail")).data
    due = [made["runAt"], once["runAt"], again["runAt"]]
    assert due == sorted(set(due)), "each time it was due later"
    assert [one["scheduledAt"] for one in reversed(tries)] == due
    assert [one["scheduledAt"] for one in detail["attempts"]] == due


async def _tried(api: Api, job_id: str, times: int) -> bool:
    return len((await api.scheduler.get_job(job_id)).attempts) == times


async def test_a_webhook_is_given_up_when_it_is_refused_or_its_tries_are_used_up(make_scheduler: Make) -> None:
    async with Sink(answers=[reply(404, b"nobody here")]) as sink, running(make_scheduler()) as api:
        refused = (await api.post("/api/jobs", {"endpoint": sink.url})).data["jobId"]
        assert (await ended(api, refused)).state == "failed"
        (execution,) = await executions(api, refused)
        assert (execution["responseCode"], execution["responseBody"]) == (404, "nobody here")
        sink.answers = [reply(502)]
        tried = (await api.post("/api/jobs", {"endpoint": sink.url, "retryAttempts": 2, "retryDelay": 0})).data["jobId"]
        assert (await ended(api, tried)).state == "failed"
        assert len(await executions(api, tried)) == 3
        shown = (await api.get(f"/api/jobs/{tried}")).data
    assert (shown["state"], shown["attempts"]) == ("failed", 3)
    assert "502" in shown["error"]["message"]


async def test_a_target_that_asks_to_wait_is_obeyed(make_scheduler: Make) -> None:
    async with Sink(answers=[reply(429, b"slow down", Retry_After="3600")]) as sink, running(make_scheduler()) as api:
        made = (await api.post("/api/jobs", {"endpoint": sink.url, "retryDelay": 0})).data["jobId"]
        job: Job = await eventually(lambda: _retried(api, made))
        assert 3500 < (job.run_at - api.scheduler.now()).total_seconds() <= 3600
        (execution,) = await executions(api, made)
    assert (execution["responseCode"], execution["responseBody"], execution["outcome"]) == (429, "slow down", "retried")


async def _retried(api: Api, job_id: str) -> Job | None:
    job = await api.scheduler.get_job(job_id)
    return job if job.state == "pending" and job.attempts else None


async def test_the_running_execution_is_listed(make_scheduler: Make) -> None:
    called, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(request: Received, writer: asyncio.StreamWriter) -> None:
        called.set()
        await go_on.wait()
        writer.write(reply(204))

    async with Sink(answers=[slowly]) as sink, running(make_scheduler()) as api:
        made = (await api.post("/api/jobs", {"endpoint": sink.url})).data["jobId"]
        await called.wait()
        (execution,) = await executions(api, made)
        assert (execution["status"], execution["completedAt"], execution["attempt"]) == ("running", None, 1)
        assert (await api.delete(f"/api/jobs/{made}")).status == 409
        go_on.set()
        await ended(api, made)
        (execution,) = await executions(api, made)
        assert (execution["status"], execution["responseCode"]) == ("success", 204)


async def test_the_executions_of_a_schedule_are_those_of_its_jobs(make_scheduler: Make) -> None:
    async with Sink(answers=[reply(200, b"x")]) as sink, running(make_scheduler()) as api:
        made = (await api.post("/api/jobs", {"endpoint": sink.url, "every": 100, "maxRuns": 3})).data["jobId"]

        async def all_done() -> bool:
            return len(await executions(api, made)) == 3 and (await api.get(f"/api/jobs/{made}")).data["runs"] == 3

        await eventually(all_done)
        found = await executions(api, made)
        assert {one["jobId"] for one in found} == {made} and len({one["runId"] for one in found}) == 3
        assert [one["startedAt"] for one in found] == sorted((one["startedAt"] for one in found), reverse=True)
        assert all(one["runId"].startswith(f"{made}@") and one["scheduledAt"] for one in found)
        shown = (await api.get(f"/api/jobs/{made}")).data
        assert (shown["state"], shown["nextRunAt"]) == ("ended", None) and shown["lastRunAt"]
        assert [one["jobId"] for one in (await api.get("/api/jobs")).data] == [made], "firings are not listed"


async def test_no_credential_is_kept_of_an_answer_that_repeats_it(make_scheduler: Make) -> None:
    async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        said = f"{request.header('Authorization')} {request.header('X-Signed')}".encode()
        writer.write(reply(500 if "fail" in request.path else 200, said))

    scheduler = make_scheduler(keys=KEYS)
    async with Sink(answers=[echo]) as sink, running(scheduler) as api:
        await scheduler.secrets.put("stripe", "canary-secret", origins=["*"])
        headers = {"Authorization": "Bearer canary-plain", "X-Signed": "secret://stripe"}
        for path in ("/ok", "/fail"):
            body = {"endpoint": sink.url + path, "headers": headers, "retryAttempts": 0}
            made = (await api.post("/api/jobs", body)).data["jobId"]
            job = await ended(api, made)
            assert (await executions(api, made))[0]["responseBody"] == "••• •••"
            assert "canary" not in str((job.result, job.error, job.attempts))
    assert [one.header("X-Signed") for one in sink.received] == ["canary-secret"] * 2


async def test_an_answer_that_is_too_large_is_cut_and_kept(make_scheduler: Make) -> None:
    large = "é".encode() * 100_000
    answers: list[Any] = [reply(500, large), reply(200, large)]
    async with Sink(answers=answers) as sink, running(make_scheduler(max_result=8192)) as api:
        made = (await api.post("/api/jobs", {"endpoint": sink.url, "retryDelay": 0})).data["jobId"]
        job = await ended(api, made)
        good, bad = await executions(api, made)
    assert job.result_note is None and "cut after" in job.result["body_note"]
    assert 1000 < len(good["responseBody"]) < 8192 and 1000 < len(bad["responseBody"]) < 8192


async def test_private_targets_are_refused_when_they_are_called_too(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    add_builtin_handlers(scheduler, service_settings(http_allow=""))
    async with Sink() as sink, serving(scheduler, http_allow="127.0.0.1") as api, scheduler:
        made = (await api.post("/api/jobs", {"endpoint": sink.url})).data["jobId"]
        job = await ended(api, made)
    assert job.state == "failed" and job.error is not None and "MAINSPRING_HTTP_ALLOW" in job.error.message
    assert sink.connections == 0


# -- mail ----------------------------------------------------------------------------------------------------------


async def test_a_mail_is_sent_and_refusals_for_good_are_told_from_those_of_the_moment(make_scheduler: Make) -> None:
    async with smtp_sink() as sink:
        url = f"smtp://127.0.0.1:{sink.port}?starttls=off"
        async with running(make_scheduler(), smtp_url=url, smtp_from="us@example.com") as api:

            async def send(to: str, **more: Any) -> Job:
                data = {"to": to, "subject": "Hello", "message": "This is a test email."}
                made = (await api.post("/api/jobs", {"type": "email", "data": data, "retryDelay": 0, **more})).data
                assert made["waiting"] is None
                return await ended(api, made["jobId"])

            sent = await send("a@example.com")
            assert sent.state == "completed" and sent.result["accepted"] == ["a@example.com"]
            sink.replies = {"gone@example.com": "550 no such user", "full@example.com": "452 mailbox full"}
            refused = await send("gone@example.com")
            assert (refused.state, len(refused.attempts)) == ("failed", 1)
            later = await send("full@example.com", retryAttempts=1)
            assert (later.state, len(later.attempts)) == ("failed", 2)
    (mail,) = sink.received
    assert (mail.message["Subject"], mail.message["From"]) == ("Hello", "us@example.com")


async def test_a_mail_waits_for_a_server_and_says_so_where_a_worker_runs(make_scheduler: Make) -> None:
    async with running(make_scheduler(), smtp_url=None) as api:
        made = (await api.post("/api/jobs", {"type": "email", "data": {"to": "a@example.com"}})).data["jobId"]

        async def held() -> Job | None:
            job = await api.scheduler.get_job(made)
            return job if job.waiting_for is not None else None

        await eventually(held)
        assert "MAINSPRING_SMTP_URL" in (await api.get(f"/api/jobs/{made}")).data["waiting"]
        assert "MAINSPRING_SMTP_URL" in str(await api.scheduler.explain(made))


@pytest.mark.parametrize("limit", [0, 101])
async def test_executions_are_bounded(api: Api, limit: int) -> None:
    assert (await api.get(f"/api/jobs/x/executions?limit={limit}")).status == 422


async def test_every_failure_is_tried_again_where_that_is_asked_for(make_scheduler: Make) -> None:
    retried: list[Any] = [reply(404), reply(410), reply(400), reply(200)]
    async with Sink(answers=retried) as sink, running(make_scheduler()) as api:
        asked = {"endpoint": sink.url, "retryDelay": 0, "retryOn": ["all"]}
        made = (await api.post("/api/jobs", asked)).data["jobId"]
        assert (await ended(api, made)).state == "completed"
        codes = [one["responseCode"] for one in await executions(api, made)]
    assert codes == [200, 400, 410, 404]


async def test_the_service_can_be_told_to_try_every_failure_again(make_scheduler: Make) -> None:
    async with Sink(answers=[reply(403), reply(200)]) as sink, running(make_scheduler(), retry_on="all") as api:
        made = (await api.post("/api/jobs", {"endpoint": sink.url, "retryDelay": 0})).data["jobId"]
        assert (await ended(api, made)).state == "completed"
        sink.answers = [reply(403)]
        own = {"endpoint": sink.url, "retryDelay": 0, "retryOn": ["5xx"]}
        assert (await ended(api, (await api.post("/api/jobs", own)).data["jobId"])).state == "failed"


async def test_a_webhook_without_templates_sends_braces_as_they_stand(make_scheduler: Make) -> None:
    async with Sink(answers=[reply(200)]) as sink, running(make_scheduler()) as api:
        body = {"endpoint": sink.url, "body": {"text": "{{unknown}}"}}
        refused = await api.post("/api/jobs", body)
        assert refused.status == 422
        made = (await api.post("/api/jobs", {**body, "templates": False})).data["jobId"]
        assert (await ended(api, made)).state == "completed"
        (received,) = sink.received
    assert b"{{unknown}}" in received.body
