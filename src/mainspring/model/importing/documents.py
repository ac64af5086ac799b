"""Documents of mongo-job-scheduler (npm, versions 1), and of workers with a status and a lock (`FieldMap`). Pure.

Both keep one document per job with a status. A document that its owner runs now is refused: it would run twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mainspring.config.field_map import FieldMap
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.importing.plan import CannotImport, Choices, LeftOut, Planned, instant, plan_job, plan_schedule
from mainspring.model.jobs.job import COMPLETED, PENDING
from mainspring.model.jobs.retry import Retry
from mainspring.rules.cron import Cron
from mainspring.rules.every import Every
from mainspring.rules.rule import Rule

COLLECTION, STATUS_LOCK_COLLECTION = "scheduler_jobs", "jobs"
_RUNS = "It runs there now; stop its workers, and import again."
_ENDED = ("completed", "failed", "cancelled")


def read_mongo_job_scheduler(document: Mapping[str, Any], choices: Choices) -> Planned:
    """The job or schedule of a document of mongo-job-scheduler."""
    source_id, name = str(document.get("_id")), str(document.get("name"))
    try:
        return _read(source_id, name, document, choices)
    except (CannotImport, ConfigurationError) as error:
        return LeftOut(source_id, name, "refused", str(error))


def _read(source_id: str, name: str, document: Mapping[str, Any], choices: Choices) -> Planned:
    status = document.get("status")
    if status in _ENDED:
        return LeftOut(source_id, name, "finished", f"It is {status} there.")
    if status != "pending":
        raise CannotImport(_RUNS if status == "running" else f"Its status {status!r:.60} is not known.")
    options: Fields = {"priority": document.get("priority"), "retry": _retry(document.get("retry"))}
    notes = []
    if document.get("concurrency") is not None:
        notes.append(
            f"concurrency: {document['concurrency']} is a limit of the handler here: @scheduler.job(concurrency=…)."
        )
    repeat = document.get("repeat")
    if isinstance(repeat, Mapping) and repeat:
        rule = _rule(repeat, document, choices)
        overlap = None if isinstance(rule, Every) else "skip"
        return plan_schedule(
            source_id, name, document.get("data"), rule, choices, {**options, "overlap": overlap}, notes
        )
    options["run_at"] = instant(document.get("nextRunAt"), "nextRunAt")
    if document.get("dedupeKey") is not None:
        notes.append("Its dedupeKey is left out: here a key holds until its job ends.")
    return plan_job(source_id, name, document.get("data"), choices, options, notes)


def _rule(repeat: Mapping[str, Any], document: Mapping[str, Any], choices: Choices) -> Rule:
    if repeat.get("cron"):
        return Cron(str(repeat["cron"]), str(repeat.get("timezone") or choices.timezone))
    every = repeat.get("every")
    if isinstance(every, bool) or not isinstance(every, int | float):
        raise CannotImport("Its repeat has neither cron nor every.")
    # There, the next run is counted from the last one's end.
    return Every(timedelta(milliseconds=every), after="end")


def _retry(retry: Any) -> Retry | int | None:
    """maxAttempts counts all attempts; a number is that too."""
    if isinstance(retry, bool) or retry is None:
        return None
    if isinstance(retry, int):
        return max(1, retry)
    if not isinstance(retry, Mapping) or not isinstance(retry.get("maxAttempts"), int | float):
        raise CannotImport("Its retry cannot be read.")
    delay = retry.get("delay")
    seconds = float(delay) / 1000 if isinstance(delay, int | float) and not isinstance(delay, bool) else 0.0
    return Retry(max(1, int(retry["maxAttempts"])), delay=seconds, backoff="fixed", jitter=0.0)


def read_status_lock(document: Mapping[str, Any], choices: Choices, map: FieldMap | None = None) -> Planned:
    """The job of a document with a status and a lock."""
    map = map or FieldMap()
    source_id, name = str(document.get("_id")), str(document.get(map.name))
    try:
        state = map.states.get(str(document.get(map.status)))
        if state is None:
            raise CannotImport(f"Its {map.status} {document.get(map.status)!r:.60} is not known.")
        if state not in (PENDING, "running"):
            word = "It has run." if state == COMPLETED else f"It is {document.get(map.status)} there."
            return LeftOut(source_id, name, "finished", word)
        if state != PENDING:
            raise CannotImport(_RUNS)
        if not isinstance(document.get(map.name), str):
            raise CannotImport(f"It has no {map.name}.")
        tags = [f"{field}:{document[field]}" for field in map.tags if isinstance(document.get(field), str | int)]
        options = {"run_at": instant(document.get(map.run_at), map.run_at), "tags": tags or None}
        return plan_job(source_id, name, document.get(map.data), choices, options)
    except (CannotImport, ConfigurationError) as error:
        return LeftOut(source_id, name, "refused", str(error))
