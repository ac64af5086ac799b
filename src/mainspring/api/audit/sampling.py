"""Bounds on rows of the audit log that any client can cause: so many for each and for all in a window of time, and a
count of those that were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from mainspring.clock import monotonic

OTHERS = "others"
# How many of those whose rows were left out are told apart.
_TOLD_APART = 100


class Sampler:
    """Admits rows of one action. Counted in this process alone, in memory, which does not grow with the clients."""

    def __init__(
        self, action: str, *, each: int, most: int, seconds: float, clock: Callable[[], float] = monotonic
    ) -> None:
        self.action = action
        self._each = each
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._until = float("-inf")
        self._admitted: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._over: Counter[str] = Counter()

    def admits(self, who: str) -> bool:
        """Whether a row of this client may be written now; one that may not is counted."""
        self._turn()
        fits = self._admitted[who] < self._each and self._admitted.total() < self._most
        if fits:
            self._admitted[who] += 1
        else:
            known = who in self._left or len(self._left) < _TOLD_APART
            self._left[who if known else OTHERS] += 1
        return fits

    def take_left_out(self, *, all: bool = False) -> Counter[str]:
        """How many were left out in the windows that are over, or in all, by client; they are told once."""
        self._turn()
        if all:
            self._close()
        over, self._over = self._over, Counter()
        return over

    def _turn(self) -> None:
        """End the window if its time is over; the next one begins now."""
        now = self._clock()
        if now >= self._until:
            self._close()
            self._until, self._admitted = now + self._seconds, Counter()

    def _close(self) -> None:
        for who, count in self._left.items():
            known = who in self._over or len(self._over) < _TOLD_APART
            self._over[who if known else OTHERS] += count
        self._left = Counter()
