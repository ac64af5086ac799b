"""Counts the outcomes of attempts for the circuit breakers, and moves breakers from state to state.

Each worker adds up the outcomes of its attempts and reports them about once a second; the database decides, on its
clock and on all workers' counts, whether a breaker opens. The worker reports the outcome of a probe at once and frees
the probe's slot only after that, so that no second probe starts before the first one's outcome is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from mainspring.engine.callbacks import Callbacks
from mainspring.engine.limits.job_gates import Limits
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.jobs.outcome import Abandoned, Committed, Completed, Failed, Outcome, Retried
from mainspring.model.limits.breaker import CLOSED, HALF_OPEN, OPEN, Breaker, BreakerStatus
from mainspring.model.limits.controls import Probe, Target, breaker_gate, breaker_target
from mainspring.model.limits.data_paths import plain_value, value_at
from mainspring.model.limits.limits import NAME, QUEUE, Gate
from mainspring.model.printable import printable
from mainspring.store import Store
from mainspring.store.limits.breakers import Moved

logger = logging.getLogger("mainspring")

_REPORT_AFTER = 1.0
_GOOD, _BAD = (Completed, Committed), (Retried, Failed)
_EVENTS = {OPEN: "breaker:open", HALF_OPEN: "breaker:probe", CLOSED: "breaker:close"}


class Breakers:
    """The breakers, as one worker counts for them."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        events: Callbacks,
        freed: Callable[[Iterable[Gate]], None],
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._limits = limits
        self._events = events
        self._freed = freed
        self._wake = wake
        self._failures: dict[str, tuple[str, str]] = {}
        """By the paths of the targets, the last failure that is not reported: the type of its error, and its job."""
        self._counts: dict[str, tuple[Target, Breaker, int, int]] = {}
        """The unreported counts, by the paths of the targets: values that differ only in their type are one target."""
        self._verdicts: list[tuple[Gate, bool]] = []
        self._judged: list[Gate] = []

    def attempt_ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        """Count the stored outcome of an attempt, and note the verdict of a probe."""
        good, bad = _word(ending)
        if good or bad:
            for scope, target in ((NAME, claimed.job.name), (QUEUE, claimed.job.queue)):
                rule = self._limits.breaker(scope, target)
                if rule is not None:
                    counted = _counted(scope, target, rule, claimed)
                    if bad and isinstance(ending, _BAD):
                        self._failures[counted.path] = (ending.error.type, str(claimed.id))
                    self._count(counted, rule, int(good), int(bad))
        probes = claimed.give_up_probes()
        if probes:
            if good or bad:
                self._verdicts += [(gate, good) for gate in probes]
                self._wake()
            else:
                self._freed(probes)

    def _count(self, target: Target, rule: Breaker, good: int, bad: int) -> None:
        if not self._counts:
            asyncio.get_running_loop().call_later(_REPORT_AFTER, self._wake)
        _, _, good_before, bad_before = self._counts.get(target.path, (target, rule, 0, 0))
        self._counts[target.path] = (target, rule, good_before + good, bad_before + bad)

    async def report_counts(self) -> None:
        """Report the counts to the database, the verdicts of probes first."""
        while self._verdicts:
            gate, good = self._verdicts[0]
            moved = await self._store.controls.judge(_probed(gate), good)
            self._judged.append(self._verdicts.pop(0)[0])
            await self.announce(moved)
        for path in list(self._counts):
            target, rule, good_ends, bad_ends = self._counts.pop(path)
            try:
                failure = self._failures.get(path)
                moved = await self._store.controls.count(target, rule, good_ends, bad_ends, failure)
                if self._failures.get(path) is failure:
                    self._failures.pop(path, None)
            except BaseException:
                self._count(target, rule, good_ends, bad_ends)
                raise
            await self.announce(moved)

    @property
    def probes(self) -> list[Gate]:
        """The slots of ended probes that are not free yet, since their verdicts are being reported."""
        return [*(gate for gate, _ in self._verdicts), *self._judged]

    def release_probe_slots(self) -> None:
        """Free the slots of probes whose verdicts were reported, so that the next probes can start."""
        judged, self._judged = self._judged, []
        if judged:
            self._freed(judged)

    async def half_open_due(self, breakers: Iterable[BreakerStatus]) -> bool:
        """Half-open the breakers that have been open for long enough; return whether this moved any breaker."""
        now, moved = self._store.clock.now(), False
        for breaker in breakers:
            if breaker.open_until is not None and breaker.open_until <= now:
                outcome = await self._store.controls.half_open(breaker_target(breaker))
                moved |= outcome.moved
                await self.announce(outcome)
        return moved

    async def announce(self, moved: Moved) -> None:
        """Announce a transition that this worker made. The worker that has closed a breaker dissolves its wait list."""
        if moved.moved:
            announce_breaker(self._events, moved.status)
            if moved.status.state == CLOSED:
                await self._store.gates.dissolve(breaker_gate(breaker_target(moved.status)))


def announce_breaker(events: Callbacks, status: BreakerStatus) -> None:
    """Log the new state of a breaker, and emit its event."""
    note = f" ({printable(status.reason)})" if status.reason else ""
    target = breaker_target(status)
    logger.warning(
        "The breaker of the %s is %s now%s",
        *(printable(target.words), status.state, note),
        extra={"breaker": target.path, "state": status.state},
    )
    events.emit(_EVENTS[status.state], status)


def _word(ending: Outcome) -> tuple[bool, bool]:
    """Whether an outcome shows that the job's dependency works, and whether it shows that it does not."""
    if isinstance(ending, _GOOD):
        return True, False
    if isinstance(ending, _BAD) and not isinstance(ending, Abandoned):
        return ending.outage is False, ending.outage is True
    return False, False


def _counted(scope: str, target: str, rule: Breaker, claimed: ClaimedJob) -> Target:
    """The breaker that an attempt counts for, by the stored data, since the gates go by it too."""
    queue = claimed.job.queue if rule.each_queue else None
    if rule.key is None:
        return Target(scope, target, queue=queue)
    value = plain_value(value_at(claimed.job.data, rule.key))
    return Target(scope, target, rule.key, value, queue)


def _probed(gate: Gate) -> Target:
    assert isinstance(gate.rule, Probe) and gate.rule.of is not None
    return gate.rule.of
