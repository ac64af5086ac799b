"""Decides whether a blocked job waits on, starts, or ends because of its predecessors. Pure.

| predecessors end → `when`                 | success          | done | failure | of a handler |
|-------------------------------------------|------------------|------|---------|--------------|
| all completed                             | start            | start | skip   | start        |
| more than tolerated ended badly           | cancel           | start | start  | start        |
| one was skipped, and none ended badly     | skip             | start | skip   | start        |
| one is live, too many bad, `fail_fast`    | cancel           | start | start  | start        |
| one is live                               | wait             | wait | wait    | wait         |

Failed, cancelled, expired and deleted predecessors ended badly. A skipped one is cancelled, with an error of the type
`Skipped`: it is no failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from mainspring.model.flows.waits import DONE, FAILURE, SUCCESS, Waits

SKIPPED = "Skipped"
"""The type of the error of a job that was skipped."""


@dataclass(frozen=True, slots=True)
class BadEnd:
    """A predecessor that did not complete."""

    job: str
    state: str
    skipped: bool = False
    because: str | None = None

    @property
    def cause(self) -> str:
        """The job that decided this end: the first one, also through several cancelled jobs."""
        return self.because or self.job


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of the predecessors of one wait, as far as they were read."""

    live: bool
    failed: int = 0
    """How many ended badly, counted up to one more than are tolerated; skipped ones are not among them."""
    first_failed: BadEnd | None = None
    first_skipped: BadEnd | None = None
    many: bool = False
    """Whether hundreds are live, so that the wait is not over in a moment."""


class Move(Enum):
    WAIT = "wait"
    START = "start"
    CANCEL = "cancel"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Decision:
    move: Move
    because: str | None = None
    """The job whose end decided it, where the waiting job ends."""
    message: str = ""
    fail_fast: tuple[str, ...] = ()
    """The waits whose live predecessors are to be cancelled."""


WAIT, START = Decision(Move.WAIT), Decision(Move.START)


def decide(waits: Waits, ends: Mapping[str, Ends], now: datetime, signalled: bool = False) -> Decision:
    """What becomes of a sealed, blocked job. `ends` has an entry for each of its waits; `signalled`: a signal that it
    waits for has arrived."""
    if signalled or (waits.until is not None and waits.until <= now):
        return START
    over = [one for one in waits.on if ends[one.id].failed + len(waits.deleted_from(one.id)) > one.tolerate]
    hurried = tuple(one.id for one in over if one.fail_fast and ends[one.id].live)
    if any(ends[one.id].live for one in waits.on) and not hurried:
        return WAIT
    if not waits.on and (waits.signals or waits.until is not None):
        return WAIT
    return _judge(waits, ends, bool(over), hurried)


def _judge(waits: Waits, ends: Mapping[str, Ends], failed: bool, hurried: tuple[str, ...]) -> Decision:
    """The decision about a job whose waits are over."""
    if waits.when is None or waits.when == DONE:
        return Decision(Move.START, fail_fast=hurried)
    skipped = next((bad for one in waits.on if (bad := ends[one.id].first_skipped) is not None), None)
    if waits.when == FAILURE:
        if failed:
            return Decision(Move.START, fail_fast=hurried)
        return Decision(Move.SKIP, None if skipped is None else skipped.cause, _NO_FAILURE)
    assert waits.when == SUCCESS
    if failed:
        first = next((bad for one in waits.on if (bad := ends[one.id].first_failed) is not None), None)
        cause, state = (waits.deleted[0][1], "deleted") if first is None else (first.cause, first.state)
        return Decision(Move.CANCEL, cause, f"Job {cause}, which it depends on, is {state}.", hurried)
    if skipped is not None:
        return Decision(Move.SKIP, skipped.cause, f"Job {skipped.job}, which it depends on, was skipped.")
    return START


_NO_FAILURE = "None of the jobs before it ended badly."
