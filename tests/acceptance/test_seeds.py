"""The commands that people know from older services, run with curl itself against real processes."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.commands import Command
from harness.mail import smtp_sink
from harness.servers import free_port
from harness.sinks import Sink, reply
from harness.waiting import eventually
from mainspring import Job, Scheduler

Start = Callable[..., Command]
ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, "-X", "dev", "-W", "error")
HERE = "http://localhost:3000"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")


class Shell:
    """Runs commands as they are written, but for the port, in the folder of the project."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def __call__(self, command: str, status: int = 200) -> Any:
        """The JSON that a command answers with."""
        written = command.strip().replace(HERE, self.url).replace("curl ", "curl -sS -w '\n%{http_code}' ", 1)
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", written, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, errors = await process.communicate()
        text, _, code = output.decode().rpartition("\n")
        assert int(code or 0) == status, (command, text, errors)
        return json.loads(text)


async def up(start: Start, uri: str, **environment: str) -> Shell:
    """`mainspring up`, with the settings that the older service had."""
    known = {"PORT": "0", "MONGODB_URI": uri, "SCHEDULER_POLL_INTERVAL": "200", "MAX_CONCURRENT_JOBS": "10"}
    known |= {"JOB_RETRY_ATTEMPTS": "3", "JOB_RETRY_DELAY": "100", "MAINSPRING_HTTP_ALLOW": "127.0.0.1"}
    command = start("up", cwd=ROOT, **known, **environment)
    found = await eventually(lambda: _address(command) or command.process.poll() is not None)
    assert isinstance(found, str), command.output
    return Shell(found)


def _address(command: Command) -> str | None:
    found = re.search(r"API +(http://\S+)", command.output)
    return found[1] if found and "To schedule a job" in command.output else None


async def test_the_job_service_answers_as_it_is_documented(start: Start, uri: str) -> None:
    async with Sink(answers=[reply(200, b'{"status":"ok"}')]) as sink:
        curl = await up(start, uri)
        created = await curl(
            """curl -X POST http://localhost:3000/api/jobs -H "Content-Type: application/json" -d '{
              "schedule": "0 */5 * * * *",
              "endpoint": "https://api.example.com/webhook",
              "method": "POST",
              "headers": {"Authorization": "Bearer YOUR_TOKEN", "Content-Type": "application/json"},
              "body": {"event": "scheduled_task", "timestamp": "{{timestamp}}"}
            }'""",
            201,
        )
        made = created["data"]
        assert created["success"] is True and re.fullmatch("[0-9a-f]{24}", made["jobId"])
        assert (made["schedule"], made["endpoint"]) == ("0 */5 * * * *", "https://api.example.com/webhook")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d[05]:00\.000Z", made["nextRunAt"])
        path = f"http://localhost:3000/api/jobs/{made['jobId']}"

        sample = await curl(
            """curl -X POST http://localhost:3000/api/jobs \\
              -H "Content-Type: application/json" \\
              -d @examples/sample-job.json""",
            201,
        )
        listed = await curl('curl "http://localhost:3000/api/jobs?page=1&limit=20"')
        assert [one["jobId"] for one in listed["data"]] == [sample["data"]["jobId"], made["jobId"]]
        one = (await curl(f"curl {path}"))["data"]
        assert (one["executionType"], one["enabled"], one["retryAttempts"]) == ("AT_LEAST_ONCE", True, 3)
        assert (one["_id"], one["retryDelay"], one["lastRunAt"]) == (made["jobId"], 100, None)
        assert one["createdAt"] and one["updatedAt"] and "YOUR_TOKEN" not in json.dumps(one)

        changed = await curl(
            f"""curl -X PUT {path} -H "Content-Type: application/json" -d '{{
              "schedule": "0 */10 * * * *",
              "enabled": true
            }}'"""
        )
        assert (changed["data"]["schedule"], changed["data"]["enabled"]) == ("0 */10 * * * *", True)
        assert (changed["data"]["endpoint"], changed["data"]["body"]) == (one["endpoint"], one["body"])

        await _executions(curl, sink)
        assert (await curl(f"curl -X DELETE {path}"))["success"] is True
        assert (await curl(f"curl {path}", 404))["success"] is False
        await _observability(curl)


async def _executions(curl: Shell, sink: Sink) -> None:
    body = json.dumps({"schedule": "* * * * * *", "endpoint": f"{sink.url}/hook"})
    made = await curl(f"curl {HERE}/api/jobs -H 'Content-Type: application/json' -d '{body}'", 201)
    path = f"{HERE}/api/jobs/{made['data']['jobId']}"

    async def executed() -> Any:
        found = (await curl(f"curl '{path}/executions?limit=5'"))["data"]
        return found if found and found[0]["status"] == "success" else None

    execution = (await eventually(executed))[0]
    assert (execution["jobId"], execution["responseCode"]) == (made["data"]["jobId"], 200)
    assert (execution["responseBody"], execution["attempt"], execution["errorMessage"]) == ('{"status":"ok"}', 1, None)
    assert execution["startedAt"] <= execution["completedAt"] and isinstance(execution["duration"], int)
    assert execution["_id"] and execution["scheduledAt"].endswith("Z")
    assert sink.received[0].path == "/hook"
    assert (await curl(f"curl {path}"))["data"]["lastRunAt"]
    await curl(f"""curl -X PUT {path} -H 'Content-Type: application/json' -d '{{"enabled": false}}'""")


async def _observability(curl: Shell) -> None:
    health = await curl("curl http://localhost:3000/api/observability/health")
    assert (health["success"], health["status"]) == (True, "healthy") and health["timestamp"].endswith("Z")
    assert health["scheduler"]["isRunning"] is True and health["scheduler"]["maxConcurrentJobs"] == 10
    assert {"runningJobs", "pollInterval"} <= set(health["scheduler"])

    async def counted() -> Any:
        stats = (await curl("curl http://localhost:3000/api/observability/stats"))["data"]
        return stats if stats["executions"]["successful"] else None

    stats = await eventually(counted)
    assert {"total", "failed", "last24Hours"} <= set(stats["executions"]) and stats["scheduler"]["isRunning"]
    assert (await curl('curl "http://localhost:3000/api/observability/failures?limit=10"'))["data"] == []


async def test_a_mail_is_scheduled_and_sent(start: Start, uri: str) -> None:
    async with smtp_sink() as sink:
        url = f"smtp://127.0.0.1:{sink.port}?starttls=off"
        curl = await up(start, uri, MAINSPRING_SMTP_URL=url, MAINSPRING_SMTP_FROM="scheduler@example.com")
        created = await curl(
            """curl -X POST http://localhost:3000/api/v1/create-job -H "Content-Type: application/json" -d '{
              "type": "email",
              "data": {
                "to": "user@example.com",
                "subject": "Scheduled Email",
                "message": "This is a test email."
              },
              "scheduledTime": "2025-02-12T12:47:00"
            }'""",
            201,
        )
        job = created["job"]
        assert created["success"] is True and (job["type"], job["status"]) == ("email", "pending")
        assert (job["scheduledTime"], job["timezone"]) == ("2025-02-12T12:47:00.000Z", "UTC")
        assert job["data"] == {
            "to": "user@example.com",
            "subject": "Scheduled Email",
            "message": "This is a test email.",
        }

        async def sent() -> bool:
            found = await curl(f"curl http://localhost:3000/api/v1/job/{job['_id']}")
            return bool(found["job"]["status"] == "completed")

        await eventually(sent)
        jobs = (await curl("curl http://localhost:3000/api/v1/jobs"))["jobs"]
        assert [(one["_id"], one["status"]) for one in jobs] == [(job["_id"], "completed")]
    (mail,) = sink.received
    assert (mail.recipients, mail.message["Subject"]) == (["user@example.com"], "Scheduled Email")
    assert mail.message.get_payload(decode=True) == b"This is a test email.\r\n"


async def test_the_application_with_triggers_does_what_they_say(start: Start, uri: str, client: Scheduler) -> None:
    port = str(free_port())
    app = start(str(ROOT / "examples" / "trigger_app.py"), command=PYTHON, cwd=ROOT, MAINSPRING_URI=uri, PORT=port)
    curl = Shell(f"http://127.0.0.1:{port}")
    await eventually(lambda: _listens(int(port)) or app.process.poll() is not None)
    assert app.process.poll() is None, app.output
    email = await curl(
        """curl -X POST http://localhost:3000/trigger/email \\
          -H "Content-Type: application/json" \\
          -d '{
            "to": "user@example.com",
            "subject": "Welcome!",
            "body": "Hello world"
          }'""",
        202,
    )
    urgent = await curl(
        """curl -X POST http://localhost:3000/trigger/email \\
          -H "Content-Type: application/json" \\
          -d '{
            "to": "admin@example.com",
            "subject": "System Alert",
            "priority": 1
          }'""",
        202,
    )
    reports = [
        await curl(
            """curl -X POST http://localhost:3000/trigger/report \\
              -H "Content-Type: application/json" \\
              -d '{ "reportType": "finance" }'""",
            202,
        )
        for _ in range(10)
    ]
    retried = await curl(
        """curl -X POST http://localhost:3000/trigger/retry-demo \\
          -H "Content-Type: application/json" \\
          -d '{ "succeedAfterAttempt": 3 }'""",
        202,
    )
    assert (await _done(client, email["jobId"])).result == "sent 'Welcome!' to user@example.com"
    assert (await _done(client, urgent["jobId"])).priority == 1
    demo = await _done(client, retried["jobId"])
    assert [attempt.outcome for attempt in demo.attempts] == [*["retried"] * 3, "completed"]
    while [job async for job in client.jobs(state="pending", name="generate-report")]:
        assert len([job async for job in client.jobs(state="running", name="generate-report")]) <= 2
    assert [(await _done(client, one["jobId"])).result for one in reports] == [{"report": "finance"}] * 10
    (cleanup,) = [schedule async for schedule in client.schedules.find()]
    assert (cleanup.id, cleanup.rule.describe()) == ("cleanup", "at 03:00, every day, in Europe/Berlin")


async def test_the_application_with_triggers_recovers_a_job_that_took_its_process_down(
    start: Start, uri: str, tmp_path: Path, client: Scheduler
) -> None:
    port = str(free_port())
    (tmp_path / ".env").write_text(f"MONGODB_URI={uri}\nPORT={port}\n")
    app = start(str(ROOT / "examples" / "trigger_app.py"), command=PYTHON, cwd=tmp_path)
    curl = Shell(f"http://127.0.0.1:{port}")
    await eventually(lambda: _listens(int(port)) or app.process.poll() is not None)
    crashing = await curl("curl -X POST http://localhost:3000/trigger/crash-demo", 202)
    assert app.wait() == 9, app.output
    rescued = await _holder_of(client, crashing["jobId"])
    await client.workers.rescue(
        rescued
    )  # as the supervisor of `mainspring worker` does; without one, the lease runs out
    start(str(ROOT / "examples" / "trigger_app.py"), command=PYTHON, cwd=tmp_path)
    done = await _done(client, crashing["jobId"])
    assert [attempt.outcome for attempt in done.attempts] == ["lost", "completed"]
    assert "recovered: attempt 2" in done.result
    shown = await curl(f"curl http://localhost:3000/jobs/{crashing['jobId']}")
    assert (shown["state"], [one["outcome"] for one in shown["attempts"]]) == ("completed", ["lost", "completed"])


async def _holder_of(client: Scheduler, job_id: str) -> str:
    worker = (await client.get_job(job_id)).worker
    assert worker is not None
    return worker


async def _done(client: Scheduler, job_id: str) -> Job:
    job = await client.wait(job_id, timeout=60)
    assert job.state == "completed"
    return job


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
