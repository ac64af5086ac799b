"""An application with endpoints of its own that leave the work to Mainspring: emails, reports two at a time, and a job
that fails until a certain attempt. The worker runs in the same process; others may run elsewhere.

    python examples/trigger_app.py        serves on port 3000 (PORT sets another) until Ctrl-C

    curl -X POST http://localhost:3000/trigger/report -H "Content-Type: application/json" -d '{"reportType": "finance"}'
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, Field

from mainspring import JobContext, Retry, Scheduler

scheduler = Scheduler(poll_interval=0.2)


@scheduler.job("send-email", retry=3)
async def send_email(to: str, subject: str, body: str = "") -> str:
    return f"sent {subject!r} to {to}"


@scheduler.job("generate-report", concurrency=2)
async def generate_report(ctx: JobContext, report_type: str, number: int) -> dict[str, object]:
    ctx.progress(50, "adding up")
    await asyncio.sleep(0.2)
    return {"report": report_type, "number": number}


@scheduler.job("retry-demo", retry=Retry(attempts=20, delay=0.2, backoff="fixed"))
async def retry_demo(ctx: JobContext, succeed_after_attempt: int) -> str:
    if ctx.attempt < succeed_after_attempt:
        raise ConnectionError(f"attempt {ctx.attempt} fails on purpose")
    return f"succeeded at attempt {ctx.attempt}"


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
    """Ten reports; two of them run at a time, however many workers there are."""
    items = [
        {"name": "generate-report", "data": {"report_type": report.reportType, "number": number}}
        for number in range(10)
    ]
    jobs = await scheduler.schedule_bulk(items)
    return {"success": True, "jobIds": [job.id for job in jobs]}


@app.post("/trigger/retry-demo", status_code=202)
async def trigger_retry_demo(demo: RetryDemo) -> dict[str, object]:
    job = await scheduler.schedule("retry-demo", {"succeed_after_attempt": demo.succeedAfterAttempt})
    return {"success": True, "jobId": job.id}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "3000")), log_level="warning")
