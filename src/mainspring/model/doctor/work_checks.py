"""Findings about the work: workers, leases, jobs that no worker can run, schedules, the service, the schema. Pure.

Problems of the overview (`model/views/judging.py`) are told in its own sentences.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.model.doctor.facts import DoctorFacts
from mainspring.model.doctor.findings import DoctorReport, Finding, FindingStatus
from mainspring.model.doctor.server_checks import (
    check_clock,
    check_indexes,
    check_oplog,
    check_tls,
    check_topology,
    check_users,
    check_version,
    check_writes,
)
from mainspring.model.schema_versions import CURRENT
from mainspring.model.views.judging import make_report
from mainspring.model.views.problems import OverviewReport, Problem, ProblemFacts

_SHOWN = 5
_CURES = {
    "start_worker": "Start a worker that has the handler and serves the queue: mainspring worker.",
    "resume": "Resume it when its cause is gone: scheduler.schedules.resume(id).",
    "close_breaker": "Close the breaker when its cause is gone: scheduler.limits.close_breaker().",
    "retry_dead_letters": "Fix the cause, then retry the dead letters: scheduler.dead_letters.retry().",
    "set_limit": "Raise the limit, or start more workers.",
}


def make_findings(facts: DoctorFacts) -> DoctorReport:
    """The findings of all checks."""
    server, work = facts.server, facts.work
    checks = (
        check_version(server),
        check_topology(server),
        check_writes(server),
        check_clock(server),
        check_oplog(server),
        check_indexes(facts.indexes, facts.at, workers=work is not None and bool(work.workers)),
        check_schema(facts),
        check_tls(server),
        check_users(server),
        check_service(facts),
        check_audit_log(facts),
        _unread() if work is None else check_work(facts, work),
    )
    return DoctorReport(facts.at, tuple(finding for check in checks for finding in check))


def check_work(facts: DoctorFacts, work: ProblemFacts) -> Iterator[Finding]:
    """Workers, leases, jobs and schedules."""
    overview = make_report(work)
    yield from check_workers(work)
    yield from check_leases(overview)
    yield from check_unserved(overview)
    yield from check_schedules(facts, work, overview)


def _unread() -> Iterator[Finding]:
    text = "Workers, leases, jobs and schedules were not checked, since indexes are missing."
    yield Finding("work", "skipped", text, "Run the doctor again when the indexes are there.")


def check_schema(facts: DoctorFacts) -> Iterator[Finding]:
    """The version of the stored documents."""
    schema = facts.schema
    if schema.pending:
        text = f"The database has documents of schema version {schema.version}; this Mainspring writes {CURRENT}."
        yield Finding("schema", "warning", text, "Run: mainspring migrate")
    else:
        yield Finding("schema", "ok", f"The documents are of schema version {schema.version}.")


def check_service(facts: DoctorFacts) -> Iterator[Finding]:
    """The keys of the HTTP service."""
    service = facts.service
    if service.admins:
        keys = "key" if service.keys == 1 else "keys"
        yield Finding("service keys", "ok", f"The HTTP service has {service.keys:,} {keys} in force.")
    elif service.keys:
        text = "No valid key has the role admin, so keys can be created only with access to the database."
        yield Finding("service keys", "warning", text, "Make one: mainspring keys create NAME --role admin")
    elif service.used:
        text = "The HTTP service has been used and has no key: it answers the user of its own machine, and no other."
        yield Finding("service keys", "warning", text, "Make the first key: mainspring keys create NAME")
    else:
        yield Finding("service keys", "ok", "There is no API key, and the HTTP service has not been used.")


def check_audit_log(facts: DoctorFacts) -> Iterator[Finding]:
    """Whether changes can be written to the audit log."""
    key_id = facts.service.audit_key
    if key_id is None:
        yield Finding("audit log", "ok", "This process can continue the audit log.")
        return
    text = (
        f"The audit log is signed with the key {key_id!r:.60}, which this process does not have, so that its changes "
    )
    text += "are refused. The service and the commands need the key; workers do not."
    yield Finding(
        "audit log",
        "problem",
        text,
        "Set MAINSPRING_AUDIT_KEYS_FILE; after a move from an embedded MongoDB, to the file audit.key of its folder.",
    )


def check_workers(work: ProblemFacts) -> Iterator[Finding]:
    """Whether workers are alive and have handlers."""
    workers = work.workers
    idle = [worker for worker in workers if worker.handlers == ()]
    for worker in idle[:_SHOWN]:
        text = f"The worker {worker.id!r} has no handlers, so it runs no jobs."
        yield Finding(
            "workers", "warning", text, "Name the module that registers them: mainspring worker app:scheduler"
        )
    versions = sorted({worker.version for worker in workers if worker.version is not None})
    if len(versions) > 1:
        text = f"The workers have different versions of Mainspring: {', '.join(versions)}."
        yield Finding("workers", "warning", text, "Finish the deploy: docs/howto/upgrade.md.")
    if not workers:
        status: FindingStatus = "problem" if work.due or work.held else "warning"
        yield Finding("workers", status, "No worker is alive, so no jobs run.", "Start one: mainspring worker")
    elif not idle and len(versions) < 2:
        count = len(workers)
        yield Finding("workers", "ok", "One worker is alive." if count == 1 else f"{count} workers are alive.")


def check_leases(overview: OverviewReport) -> Iterator[Finding]:
    """Running jobs whose lease has run out."""
    stuck = [one for one in overview.problems if one.kind == "stuck" and one.severity == "critical"]
    cure = "Start a worker: any live worker rescues such jobs within seconds."
    yield from _told("leases", stuck, "problem", cure)
    if not stuck:
        yield Finding("leases", "ok", "No job has lost its worker.")


def check_unserved(overview: OverviewReport) -> Iterator[Finding]:
    """Jobs that no live worker can run: no worker for the queue, no handler, an old handler, no key."""
    found = [one for one in overview.problems if one.kind == "unserved" and one.target.kind != "workers"]
    found += [one for one in overview.problems if one.kind == "stuck" and one.severity != "critical"]
    yield from _told("jobs without a worker", found, "problem", _CURES["start_worker"])
    if not found:
        yield Finding("jobs without a worker", "ok", "Every due job that was checked has a worker that can run it.")


def check_schedules(facts: DoctorFacts, work: ProblemFacts, overview: OverviewReport) -> Iterator[Finding]:
    """Schedules that never fire, are late, have paused themselves, or make jobs that no live worker can run."""
    findings = list(_told("schedules", [one for one in overview.problems if one.kind == "schedule"], "warning"))
    for schedule in facts.schedules[:_SHOWN]:
        if schedule.error is not None:
            text = f"The schedule {schedule.id!r} cannot be read: {schedule.error}"
            findings.append(Finding("schedules", "problem", text, "Store it again, or delete it."))
        elif not schedule.runs:
            text = f"The schedule {schedule.id!r} has never fired and has no future firing."
            findings.append(Finding("schedules", "warning", text, "Correct its rule or its end_at, or delete it."))
    if work.workers:
        lacking = [one for one in facts.scheduled_names if not any(w.handles(one[1]) for w in work.workers)]
        for schedule_id, name in lacking[:_SHOWN]:
            text = f"The schedule {schedule_id!r} makes jobs of {name!r}, for which no live worker has a handler."
            findings.append(Finding("schedules", "warning", text, _CURES["start_worker"]))
    yield from findings
    if not findings:
        count = f"{facts.schedules_read:,} schedule{'' if facts.schedules_read == 1 else 's'}"
        more = "" if facts.schedules_complete else "; only the newest were checked"
        yield Finding("schedules", "ok", f"{count} checked, none without firings{more}.")


def _told(check: str, found: list[Problem], status: FindingStatus, cure: str = "") -> Iterator[Finding]:
    for problem in found[:_SHOWN]:
        cures = [_CURES[one.verb] for one in problem.cures]
        yield Finding(check, status, problem.text, cures[0] if cures else cure)
    if len(found) > _SHOWN:
        yield Finding(check, status, f"And {len(found) - _SHOWN} more of this kind.", cure)
