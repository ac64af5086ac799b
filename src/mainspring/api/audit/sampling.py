"""Bounds on rows of the audit log that any client can cause: per client and in all in a window of time, with a count
of the rows that were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from mainspring.clock import monotonic

OTHERS = "others"
# How many clients whose rows were left out are counted one by one.
_TOLD_APART = 100


class Sampler:
    """Admits rows of one action. It counts in this process alone, in memory of bounded size."""

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
        """Whether a row of this client may be written now; a row that may not is counted."""
        self._turn()
        fits = self._admitted[who] < self._each and self._admitted.total() < self._most
        if fits:
            self._admitted[who] += 1
        else:
            known = who in self._left or len(self._left) < _TOLD_APART
            self._left[who if known else OTHERS] += 1
        return fits

    def take_left_out(self, *, all: bool = False) -> Counter[str]:
        """The number of rows left out in past windows, or in all, by client; each row is reported once."""
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
