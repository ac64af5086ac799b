"""An application with endpoints of its own that leave the work to Mainspring: emails, reports two at a time, a job that
fails a given number of times, a nightly clean-up, and a job that takes its worker down with it.

    python examples/trigger_app.py        serves on port 3000 until Ctrl-C; settings may be in a file .env here

    curl -X POST http://localhost:3000/trigger/report -H "Content-Type: application/json" -d '{"reportType": "finance"}'

The worker runs in the same process. More workers for the same database, each of which takes its share:

    mainspring worker examples.trigger_app:scheduler --processes 3
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import uvicorn
from dotenv import load_dotenv
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from mainspring import JobContext, JobNotFound, Retry, Scheduler

load_dotenv(Path.cwd() / ".env", override=False)  # MAINSPRING_URI or MONGODB_URI, PORT; see .env.example

scheduler = Scheduler(app="triggers", poll_interval=0.2)  # the app is the owner of the schedules declared here


@scheduler.job("send-email", retry=3)
async def send_email(to: str, subject: str, body: str = "") -> str:
    return f"sent {subject!r} to {to}"


@scheduler.job("generate-report", concurrency=2)
async def generate_report(ctx: JobContext, report_type: str) -> dict[str, object]:
    """Two run at a time, however many workers there are; the others wait."""
    ctx.progress(50, "adding up")
    await asyncio.sleep(0.5)
    return {"report": report_type}


@scheduler.job("retry-demo", retry=Retry(attempts=21, delay=0.2, backoff="fixed"))
async def retry_demo(ctx: JobContext, succeed_after_attempt: int) -> str:
    if ctx.attempt <= succeed_after_attempt:
        raise ConnectionError(f"attempt {ctx.attempt} fails on purpose")
    return f"succeeded at attempt {ctx.attempt}"


@scheduler.job("crash-demo")
async def crash_demo(ctx: JobContext) -> str:
    """The first attempt ends its process as an out-of-memory kill would; another worker, or this one started again,
    takes the job over."""
    if ctx.attempt == 1:
        os._exit(9)
    return f"recovered: attempt {ctx.attempt} ran in process {os.getpid()}"


@scheduler.cron("0 3 * * *", timezone="Europe/Berlin")
async def cleanup() -> str:
    """Every night at three, Berlin time: tidy up what is older than a month."""
    return f"cleaned up what was older than {scheduler.now() - timedelta(days=30):%Y-%m-%d}"


class Email(BaseModel):
    to: str
    subject: str
    body: str = ""
    priority: Annotated[int, Field(ge=1, le=10)] | None = None


class Report(BaseModel):
    reportType: str


class RetryDemo(BaseModel):
    succeedAfterAttempt: Annotated[int, Field(ge=1, le=20)] = 3


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with scheduler:
        yield


app = FastAPI(title="Triggers", lifespan=lifespan)


@app.post("/trigger/email", status_code=202)
async def trigger_email(email: Email) -> dict[str, object]:
    data = {"to": email.to, "subject": email.subject, "body": email.body}
    job = await scheduler.schedule("send-email", data, priority=email.priority)
    return {"success": True, "jobId": job.id, "priority": job.priority}


@app.post("/trigger/report", status_code=202)
async def trigger_report(report: Report) -> dict[str, object]:
    job = await scheduler.schedule("generate-report", {"report_type": report.reportType})
    return {"success": True, "jobId": job.id}


@app.post("/trigger/retry-demo", status_code=202)
async def trigger_retry_demo(demo: RetryDemo) -> dict[str, object]:
    job = await scheduler.schedule("retry-demo", {"succeed_after_attempt": demo.succeedAfterAttempt})
    return {"success": True, "jobId": job.id}


@app.post("/trigger/crash-demo", status_code=202)
async def trigger_crash_demo() -> dict[str, object]:
    job = await scheduler.schedule("crash-demo")
    return {"success": True, "jobId": job.id}


@app.get("/jobs/{job_id}")
async def show_job(job_id: str) -> dict[str, object]:
    try:
        job = await scheduler.get_job(job_id)
    except JobNotFound:
        raise HTTPException(404, f"There is no job {job_id}.") from None
    attempts = [{"worker": one.worker, "outcome": one.outcome} for one in job.attempts]
    return {"id": job.id, "name": job.name, "state": job.state, "result": job.result, "attempts": attempts}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "3000")), log_level="warning")
