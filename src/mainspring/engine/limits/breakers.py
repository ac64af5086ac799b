"""Counting how attempts end for the breakers, and moving these from state to state.

Each worker adds up what ends here and hands it in about once a second; the database decides, on its clock and on all
workers' counts, whether a breaker opens. What a probe's end means is handed in at once, and its slot becomes free only
after that, so that no second probe starts before the first one's word is heard.
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
_EVENTS = {OPEN: "breaker:open", HALF_OPEN: "breaker:probe", CLOSED: "breaker:close"}


class Breakers:
    """The breakers, as one worker sees to them."""

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
        self._counts: dict[str, tuple[Target, Breaker, int, int]] = {}
        """What was counted, by the paths of the targets: values that differ in their type alone are the same."""
        self._verdicts: list[tuple[Gate, bool]] = []
        self._judged: list[Gate] = []

    def attempt_ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        """The end of an attempt is stored: count it, and take a probe's word."""
        good, bad = _word(ending)
        if good or bad:
            for scope, target in ((NAME, claimed.job.name), (QUEUE, claimed.job.queue)):
                rule = self._limits.breaker(scope, target)
                if rule is not None:
                    self._count(_counted(scope, target, rule, claimed), rule, int(good), int(bad))
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
        """Tell the database what was counted, first of all the word of probes."""
        while self._verdicts:
            gate, good = self._verdicts[0]
            moved = await self._store.controls.judge(_probed(gate), good)
            self._judged.append(self._verdicts.pop(0)[0])
            await self.announce(moved)
        for path in list(self._counts):
            target, rule, good_ends, bad_ends = self._counts.pop(path)
            try:
                moved = await self._store.controls.count(target, rule, good_ends, bad_ends)
            except BaseException:
                self._count(target, rule, good_ends, bad_ends)
                raise
            await self.announce(moved)

    @property
    def probes(self) -> list[Gate]:
        """The slots of probes that have ended and whose word is still to be heard."""
        return [*(gate for gate, _ in self._verdicts), *self._judged]

    def release_probe_slots(self) -> None:
        """Let the next probes go, where the last ones have been heard."""
        judged, self._judged = self._judged, []
        if judged:
            self._freed(judged)

    async def half_open_due(self, breakers: Iterable[BreakerStatus]) -> bool:
        """Let probes through the breakers that have been open for long enough; whether any was moved by this."""
        now, moved = self._store.clock.now(), False
        for breaker in breakers:
            if breaker.open_until is not None and breaker.open_until <= now:
                outcome = await self._store.controls.half_open(breaker_target(breaker))
                moved |= outcome.moved
                await self.announce(outcome)
        return moved

    async def announce(self, moved: Moved) -> None:
        """Announce a transition that was made here. The worker that has closed a breaker releases its wait list."""
        if moved.moved:
            announce_breaker(self._events, moved.status)
            if moved.status.state == CLOSED:
                await self._store.gates.dissolve(breaker_gate(breaker_target(moved.status)))


def announce_breaker(events: Callbacks, status: BreakerStatus) -> None:
    """Tell that a breaker has changed its state."""
    note = f" ({printable(status.reason)})" if status.reason else ""
    target = breaker_target(status)
    logger.warning(
        "The breaker of the %s is %s now%s",
        *(printable(target.words), status.state, note),
        extra={"breaker": target.path, "state": status.state},
    )
    events.emit(_EVENTS[status.state], status)


def _word(ending: Outcome) -> tuple[bool, bool]:
    """Whether an end tells that what the job needs works, and whether it tells that it does not."""
    if isinstance(ending, Completed | Committed):
        return True, False
    if isinstance(ending, Retried | Failed) and not isinstance(ending, Abandoned):
        return ending.outage is False, ending.outage is True
    return False, False


def _counted(scope: str, target: str, rule: Breaker, claimed: ClaimedJob) -> Target:
    """Which breaker an attempt counts for; by the data as it is stored, which is what the gates go by."""
    queue = claimed.job.queue if rule.each_queue else None
    if rule.key is None:
        return Target(scope, target, queue=queue)
    value = plain_value(value_at(claimed.job.data, rule.key))
    return Target(scope, target, rule.key, value, queue)


def _probed(gate: Gate) -> Target:
    assert isinstance(gate.rule, Probe) and gate.rule.of is not None
    return gate.rule.of
