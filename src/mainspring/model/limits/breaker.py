"""Circuit breakers: they hold jobs whose attempts fail too often, until a single one succeeds again. Pure.

A breaker belongs to a job name or to a queue. With a key, a path into the job's data such as "target", each value of it
has a breaker of its own, which counts the attempts of these jobs alone.

It is closed as long as attempts succeed. It opens when too large a share of the attempts of its window has failed: no
job is started then. After a time it is half open: it lets one job at a time through as a probe. A probe that succeeds
closes the breaker; a probe that fails opens it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.config.checks import check_whole
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.limits.data_paths import check_key
from mainspring.spelling import spelled_class

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"
BREAKER_STATES = (CLOSED, OPEN, HALF_OPEN)
_LARGEST = 1_000_000
_LONGEST = 7 * 86400.0


@spelled_class
@dataclass(frozen=True, slots=True, init=False)
class Breaker:
    """A circuit breaker. It opens when at least `errors` (a share: 0.5 is half) of the attempts in the last `window`
    seconds failed, and there were at least `minimum` attempts. It stays open for `open_for` seconds, and then lets
    single probes through. With `key`, each value at this path in the data has its own breaker; with `each_queue`, each
    queue has its own.
    """

    errors: float
    window: float
    minimum: int
    open_for: float
    key: str | None
    each_queue: bool

    def __init__(
        self,
        errors: float = 0.5,
        window: Seconds = 60.0,
        minimum: int = 10,
        open_for: Seconds = 30.0,
        *,
        key: str | None = None,
        each_queue: bool = False,
    ) -> None:
        if isinstance(errors, bool) or not isinstance(errors, int | float) or not 0 < errors <= 1:
            raise ConfigurationError(f"Breaker.errors is a share above 0 and at most 1, not {errors!r}.")
        check_whole(minimum, "Breaker.minimum", 1, _LARGEST)
        check_key(key)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "each_queue", each_queue)
        object.__setattr__(self, "errors", float(errors))
        object.__setattr__(self, "window", _span(window, "Breaker.window", 1.0))
        object.__setattr__(self, "minimum", minimum)
        object.__setattr__(self, "open_for", check_open_for(open_for, "Breaker.open_for"))

    def to_document(self) -> dict[str, Any]:
        rule = {"errors": self.errors, "window": self.window, "minimum": self.minimum, "open_for": self.open_for}
        keyed = {} if self.key is None else {"key": self.key}
        return rule | keyed | ({"each_queue": True} if self.each_queue else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Breaker:
        rule = (document["errors"], document["window"], document["minimum"], document["open_for"])
        return cls(*rule, key=document.get("key"), each_queue=document.get("each_queue") is True)


@dataclass(frozen=True, slots=True)
class BreakerChange:
    """One step of a breaker's story: the state that it came into, when, and why."""

    at: datetime
    state: str
    reason: str = ""
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class BreakerFailure:
    """A failed attempt that a breaker has counted."""

    at: datetime
    error_type: str
    job_id: str


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """A breaker's status: its queue or name, its state and since when, its counts, and the reason."""

    scope: str
    target: str
    state: str
    since: datetime | None = None
    open_until: datetime | None = None
    """When it lets the first probe through; None while it is not open, or open until an operator closes it."""
    good: int = 0
    bad: int = 0
    """The attempts of the last window that succeeded, and those that failed, as of the last count."""
    reason: str = ""
    actor: str | None = None
    rule: Breaker | None = None
    """The declared rule by which it opens; None where only operators open and close it."""
    key: str | None = None
    value: Any = None
    """Of a breaker with a key: its value. A breaker that is only declared has a key and no value yet."""
    queue: str | None = None
    """Of a name's breaker with `each_queue`: its queue."""
    story: tuple[BreakerChange, ...] = ()
    """Its last changes of state, the latest first; at most ten."""
    last_failure: BreakerFailure | None = None
    """The last failed attempt that it has counted."""


def check_breaker(value: object) -> Breaker | None:
    """Check the option `breaker`."""
    if value is None or isinstance(value, Breaker):
        return value
    raise ConfigurationError(f"breaker must be a Breaker, such as Breaker(errors=0.5, window=60), not {value!r}.")


def check_open_for(value: Seconds, name: str) -> float:
    return _span(value, name, 0.1)


def _span(value: Seconds, name: str, least: float) -> float:
    length = seconds(value, name)
    if not least <= length <= _LONGEST:
        raise ConfigurationError(f"{name} must be from {least:g} seconds to 7 days, not {value!r}.")
    return length
