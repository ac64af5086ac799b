"""Judges a history: holds what handlers wrote down, what the database kept and how it got there against the promises.

One small history per job, and the token gives the order of its claims, so that no search is needed. What is reported
is a list of sentences; an empty one means that nothing was lost, nothing ran twice without a reason, no two holders
overlapped, and no ended job came to life again.

An extra run needs a reason: its worker was killed, paused or told to stop, or there was an outage of the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.changes import Change
from harness.history import History, Run

Document = Mapping[str, Any]

_MOVES = {
    (None, "pending"),
    ("pending", "running"),
    ("running", "pending"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
}
_ENDED = ("completed", "failed", "cancelled", "expired")


@dataclass(slots=True)
class Reasons:
    """What was done to the workers on purpose. `outage`: the database was disturbed so that leases may run out."""

    killed: dict[str, float] = field(default_factory=dict)
    """When each worker was killed (monotonic, taken after its death)."""
    paused: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    outage: bool = False

    def for_rescue(self, worker: str | None) -> bool:
        return self.outage or worker in self.killed or worker in self.paused


def check(
    history: History,
    documents: Mapping[str, Document],
    changes: Mapping[str, Sequence[Change]] | None = None,
    *,
    acknowledged: Iterable[str] = (),
    reasons: Reasons | None = None,
) -> list[str]:
    """All that contradicts the promises, one sentence each."""
    reasons = reasons or Reasons()
    runs = history.runs_by_job()
    found = list(_check_kept(acknowledged, documents, runs))
    for job, document in documents.items():
        found += _check_runs(job, runs.get(job, []), reasons)
        found += _check_document(job, document, runs.get(job, []), reasons)
        if changes is not None:
            found += _check_changes(job, document, changes.get(job, []))
    return found


def check_runs(history: History, reasons: Reasons) -> list[str]:
    """All that contradicts process exclusion alone."""
    return [found for job, runs in history.runs_by_job().items() for found in _check_runs(job, runs, reasons)]


def _check_kept(
    acknowledged: Iterable[str], documents: Mapping[str, Document], runs: Mapping[str, list[Run]]
) -> Iterator[str]:
    """Durability: what was acknowledged is there, and nothing ran that is not."""
    for job in acknowledged:
        if job not in documents:
            yield f"{job} was acknowledged and is lost"
    for job in runs.keys() - documents.keys():
        yield f"{job} ran and is lost"


def _check_runs(job: str, runs: list[Run], reasons: Reasons) -> Iterator[str]:
    """Process exclusion: one run per token, in the order of the tokens, and no two at the same time."""
    last: Run | None = None
    for run in runs:
        if run.ended is None:
            run.ended = reasons.killed.get(run.worker)
            if run.ended is None:
                yield f"{job}: the run with token {run.token} in {run.worker} never ended, and was not killed"
                run.ended = float("inf")
        if last is not None:
            # A paused worker may wake up right after it has looked at the clock; the fence is there for that.
            zombie = bool({run.worker, last.worker} & reasons.paused)
            if run.token == last.token or (run.token < last.token and not zombie):
                yield f"{job}: token {run.token} ({run.worker}) ran after token {last.token} ({last.worker})"
            assert last.ended is not None
            if run.started < last.ended and not zombie:
                yield f"{job}: tokens {last.token} and {run.token} ran at once for {last.ended - run.started:.3f} s"
        last = run


def _check_document(job: str, document: Document, runs: list[Run], reasons: Reasons) -> Iterator[str]:
    """One result, by the holder of the last token; every attempt accounted for."""
    state, token = document["state"], document["token"]
    attempts = document.get("attempts") or []
    if state not in _ENDED:
        yield f"{job} is still {state} (token {token})"
        return
    tokens = [attempt["token"] for attempt in attempts]
    if tokens != sorted(set(tokens)) or tokens[-1:] != [token]:
        yield f"{job}: its attempts carry the tokens {tokens}, its last claim {token}"
    outcomes = [attempt["outcome"] for attempt in attempts]
    if outcomes.count("completed") != (state == "completed"):
        yield f"{job} is {state} after {outcomes}"
    if len(attempts) != document["tries"]:
        yield f"{job} has counted {document['tries']} attempts and kept {len(attempts)}"
    for attempt in attempts:
        if attempt["outcome"] == "lost" and not reasons.for_rescue(attempt["worker"]):
            yield f"{job}: attempt {attempt['n']} in {attempt['worker']} was lost for no reason"
    if state == "completed":
        if not any(run.token == token and run.how == "returned" for run in runs):
            yield f"{job} is completed with token {token}, and no run of that token returned"
        if document.get("result") != token:
            yield f"{job} has the result of token {document.get('result')}, and its last claim was {token}"
    yield from _check_repeats(job, document, runs, reasons)


def _check_repeats(job: str, document: Document, runs: list[Run], reasons: Reasons) -> Iterator[str]:
    """Every run but the one that ended the job has an attempt that failed, or a worker that something was done to.

    A worker that dies right after it has started a job that was claimed ahead leaves no attempt behind.
    """
    accounted = {attempt["token"] for attempt in document.get("attempts") or []}
    for run in runs:
        excused = run.worker in reasons.stopped or reasons.for_rescue(run.worker)
        if run.token not in accounted and not excused:
            yield f"{job}: the run with token {run.token} in {run.worker} left no attempt"


def _check_changes(job: str, document: Document, changes: Sequence[Change]) -> Iterator[str]:
    """The database's own account: legal moves only, tokens one by one, no lease cut short, no life after the end."""
    rescued = {a["token"] for a in document.get("attempts") or [] if a["outcome"] == "lost"}
    state: str | None = None
    token, lease_until = 0, None
    for change in changes:
        if change.kind == "delete":
            yield f"{job} was deleted"
        new = change.fields.get("state", state)
        if (state, new) not in _MOVES and state != new:
            yield f"{job} went from {state} to {new}"
        if state == "running" and new != state and token in rescued and lease_until and change.at < lease_until:
            yield f"{job} was taken from token {token} {lease_until - change.at} before its lease ended"
        claimed = change.fields.get("token", token)
        if claimed != token and (claimed != token + 1 or (state, new) != ("pending", "running")):
            yield f"{job}: the token went from {token} to {claimed} as it became {new}"
        if state in _ENDED and change.fields:
            yield f"{job} was changed after it was {state}: {sorted(change.fields)}"
        state, token, lease_until = new, claimed, change.fields.get("lease_until", lease_until)
