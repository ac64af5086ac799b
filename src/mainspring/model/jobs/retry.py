"""Retry policies: whether and when a failed attempt is followed by another one.

Users write `Retry`; `delay_before()` is the arithmetic, pure: the caller passes the random number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args

from mainspring.config.checks import check_whole
from mainspring.durations import Duration, duration_ms
from mainspring.errors import ConfigurationError
from mainspring.spelling import spelled_class

Seconds = Duration
Backoff = Literal["fixed", "linear", "exponential"]
BACKOFFS: tuple[Backoff, ...] = get_args(Backoff)
LONGEST = 10 * 365 * 86400.0


def seconds(value: Seconds, name: str) -> float:
    """A duration given as seconds, timedelta or text, in seconds; refused when it is no duration or negative."""
    if isinstance(value, str):
        value = duration_ms(value, name, ConfigurationError) / 1000
    elif isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f'{name} must be seconds, a timedelta or text such as "5m", not {value!r}.')
    if not 0 <= value <= LONGEST:
        raise ConfigurationError(f"{name} must be between 0 seconds and ten years, not {value!r}.")
    return float(value)


@spelled_class
@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and when, to retry a job.

    `attempts` counts all attempts, including the first. `delay` is the pause before the second attempt: seconds, a
    timedelta, a text such as "5m", or a function of the attempt that failed (1, 2, …). `backoff` says how the pause
    grows: "fixed", "linear" (delay × n) or "exponential" (delay × 2ⁿ⁻¹), never beyond `max_delay`. `jitter` spreads the
    pauses by up to that share, so that jobs that failed together do not come back together. `rules` gives exception
    types their own policy: the first type that matches counts; `Retry(attempts=1)` there means "do not retry".
    """

    attempts: int = 3
    delay: Seconds | Callable[[int], Seconds] = 5.0
    backoff: Backoff = "exponential"
    max_delay: Seconds = 3600.0
    jitter: float = 0.1
    rules: Mapping[type[BaseException], Retry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_whole(self.attempts, "Retry.attempts, which includes the first one,", 1)
        if self.backoff not in BACKOFFS:
            raise ConfigurationError(f"Retry.backoff must be one of {', '.join(BACKOFFS)}, not {self.backoff!r}.")
        if not callable(self.delay):
            seconds(self.delay, "Retry.delay")
        seconds(self.max_delay, "Retry.max_delay")
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise ConfigurationError(f"Retry.jitter is a share between 0 and 1, not {self.jitter!r}.")
        for kind, policy in self.rules.items():
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise ConfigurationError(
                    f"Retry.rules maps exception types to Retry policies; {kind!r} is not an exception type."
                )
            if not isinstance(policy, Retry):
                raise ConfigurationError(
                    f"Retry.rules maps exception types to Retry policies; {policy!r} is not one. Write "
                    "Retry(attempts=1) to allow no retry."
                )

    def rule_for(self, error: BaseException | None) -> Retry:
        """The policy that applies to this error."""
        for kind, policy in self.rules.items():
            if isinstance(error, kind):
                return policy
        return self

    def delay_before(self, attempt: int, spread: float = 0.5) -> float:
        """The seconds to wait after `attempt` (1, 2, …) failed. `spread` in [0, 1) chooses the place in the jitter."""
        if callable(self.delay):
            pause = seconds(self.delay(attempt), "the delay returned by Retry.delay()")
        else:
            pause = seconds(self.delay, "Retry.delay") * _growth(self.backoff, attempt)
        pause = min(pause, seconds(self.max_delay, "Retry.max_delay"))
        return pause * (1 + self.jitter * (2 * spread - 1))

    def to_document(self) -> dict[str, Any]:
        """The policy as it is stored on a job."""
        if callable(self.delay) or self.rules:
            raise ConfigurationError(
                "A retry policy with a function or with rules by exception type cannot be stored on a job; "
                "give it to the handler's decorator instead."
            )
        return {
            "attempts": self.attempts,
            "delay": seconds(self.delay, "Retry.delay"),
            "backoff": self.backoff,
            "max_delay": seconds(self.max_delay, "Retry.max_delay"),
            "jitter": self.jitter,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Retry:
        """The policy stored on a job; missing fields have their defaults."""
        known = {"attempts", "delay", "backoff", "max_delay", "jitter"}
        return cls(**{key: value for key, value in document.items() if key in known})


def _growth(backoff: str, attempt: int) -> float:
    if backoff == "exponential":
        return 2.0 ** min(attempt - 1, 60)
    return float(attempt) if backoff == "linear" else 1.0
