"""`mainspring jobs`: looks at jobs, and acts on one of them or on many."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.body import ONE_JOB, WORK, bodied, one_of, with_name
from mainspring.cli.operate.choices import (
    Error,
    Limit,
    Name,
    Queue,
    Reason,
    Since,
    State,
    Tag,
    Until,
    Where,
    as_query,
    hint_handler,
    job_filter,
)
from mainspring.cli.operate.job_view import JOBS, SPARE, show_explanation, show_job
from mainspring.cli.operate.many import Selection, on_many
from mainspring.cli.operate.tail import tail
from mainspring.cli.support.exit_codes import INTERRUPTED, RUNTIME_FAILURE, say
from mainspring.cli.terminal.output import print_json, print_text
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import COMPLETED, FINISHED, STATES

jobs = typer.Typer(help="Jobs.", no_args_is_help=True)

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")]
JobIds = Annotated[
    list[str] | None, typer.Argument(metavar="[JOB]...", help="The ids of the jobs; or use the filters.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Act on many jobs without asking for confirmation.")]
_LONGEST_WAIT = 30


@jobs.command("list")
@operating
def list_jobs(
    call: Call,
    state: State = None,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    error: Error = None,
    schedule: Annotated[str | None, typer.Option("--schedule", help="Only jobs of this schedule.")] = None,
    worker: Annotated[str | None, typer.Option("--worker", help="Only jobs that this worker runs or ran.")] = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    limit: Limit = 50,
) -> None:
    """List jobs, the newest first; without --state, jobs of schedules and flows last."""
    given = job_filter(state=state, name=name, queue=queue, tag=tag, error=error, since=since, until=until, where=where)
    found = call.api.items("/api/jobs/search", limit, scheduleId=schedule, worker=worker, **as_query(given))
    call.first(found, limit, JOBS, "No job matches.", SPARE)


@jobs.command()
@operating
def count(
    call: Call,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
) -> None:
    """Count jobs by state."""
    given = job_filter(name=name, queue=queue, tag=tag, error=error, since=since, until=until, where=where)
    found = call.api.get("/api/jobs/counts", **as_query(given))["data"]
    columns = {"STATE": lambda one: one["state"], "JOBS": lambda one: f"{one['count']:,}{'+' * one['capped']}"}
    call.table(found, columns, "")


@jobs.command()
@operating
def show(call: Call, job_id: JobId) -> None:
    """Show a job in every detail: data, attempts, errors, logs."""
    call.document(call.api.get(path("jobs", job_id, "detail"))["data"], show_job)


@jobs.command()
@operating
@bodied(*WORK, *ONE_JOB)
def add(
    call: Call,
    body: Fields,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name of its handler.")] = None,
    once: Annotated[
        str | None,
        typer.Option(
            "--once",
            help="A text of your choice: for a day, repeating the command with the same text adds no second job.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job ends; exit with 1 unless it completed.")
    ] = False,
) -> None:
    """Add a job: for a handler, a webhook (--endpoint) or an email (--type email). Print its id."""
    made = call.api.post("/api/jobs", with_name(body, name), once=once)["data"]
    job_id = made["jobId"]
    if not wait:
        print_json(made) if call.as_json else print_text(job_id)
    if made.get("deduplicated"):
        say("A job with this --dedupe-key already exists; no other was created.")
    elif name is not None:
        hint_handler(call.api, name, "the job waits for one")
    if wait:
        _wait(call, job_id)


@jobs.command()
@operating
def cancel(
    call: Call,
    job_ids: JobIds = None,
    state: State = None,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    where: Where = None,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Cancel jobs. Pending jobs are cancelled at once; running jobs are asked to stop."""
    chosen = Selection(job_ids, job_filter(state=state, name=name, queue=queue, tag=tag, where=where), reason, yes)
    on_many(call, "cancel", chosen, {"reason": reason})


@jobs.command()
@operating
def retry(
    call: Call,
    job_ids: JobIds = None,
    state: State = None,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    error: Error = None,
    where: Where = None,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Run ended jobs again, as a new round of attempts."""
    given = job_filter(state=state, name=name, queue=queue, tag=tag, error=error, where=where)
    on_many(call, "retry", Selection(job_ids, given, reason, yes))


@jobs.command("run")
@operating
def run_now(
    call: Call,
    job_ids: JobIds = None,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    where: Where = None,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Make pending jobs due at once."""
    on_many(call, "run", Selection(job_ids, job_filter(name=name, queue=queue, tag=tag, where=where), reason, yes))


@jobs.command()
@operating
def explain(call: Call, job_id: JobId) -> None:
    """Explain why a job is not running: every gate between the job and its run."""
    call.document(call.api.get(path("jobs", job_id, "explain"))["data"], show_explanation)


@jobs.command("tail")
@operating
def tail_jobs(
    call: Call,
    job_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]", help="Follow only this job, with its log, until it ends; by default, follow all jobs."
        ),
    ] = None,
    name: Name = None,
    queue: Queue = None,
    state: Annotated[str | None, typer.Option("--state", help="Only changes to this state.")] = None,
) -> None:
    """Show changes of jobs as they happen; with --json, one object per line. Ctrl-C stops."""
    tail(call, job_id, {"name": name, "queue": queue, "state": one_of(state, STATES, "--state")})


def _wait(call: Call, job_id: str) -> None:
    """Wait for the end of a job, and show it."""
    job: Fields = {}
    try:
        while job.get("state") not in FINISHED:
            job = call.api.get(path("jobs", job_id, "wait"), timeout=f"{_LONGEST_WAIT}s")["data"]
    except KeyboardInterrupt:
        say(f"The job {job_id} has been added, and does not need this command: mainspring jobs show {job_id} shows it.")
        raise typer.Exit(INTERRUPTED) from None
    call.document(call.api.get(path("jobs", job_id, "detail"))["data"], show_job)
    if job["state"] != COMPLETED:
        raise typer.Exit(RUNTIME_FAILURE)
