"""How long finished jobs are kept: rules by state, name and queue, and which of them applies to a job.

Users write `Keep`. `Retention` puts the rules and the settings `keep_finished` and `keep_failed` in order: each
finished job belongs to exactly one `Share`, that of the most specific rule. A name counts more than a queue, and a
queue more than a state. Two rules of which neither is more specific are refused when they are set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.durations import duration_ms
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.job import CANCELLED, COMPLETED, EXPIRED, FAILED, FINISHED, FinishedState
from mainspring.model.jobs.retry import LONGEST
from mainspring.spelling import spelled_class, suggestion

ALL = "all"
_UNLESS_SAID = (COMPLETED, CANCELLED, EXPIRED)
_MOST = 1_000_000


@spelled_class
@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How long finished jobs are kept, for a state, a name and a queue, as far as you pass them.

    `age` is the time since their end: "1h", a timedelta or seconds. `count` keeps that many of the newest jobs of each
    state. With both, a job is deleted as soon as it exceeds one of them; with neither, it is kept forever. `state` is
    one state, a list, or "all". Without it, the rule applies to completed, cancelled and expired jobs: failed jobs are
    deleted only if a rule names that state.
    """

    state: FinishedState | Literal["all"] | Sequence[FinishedState] | None = None
    name: str | None = None
    queue: str | None = None
    age: str | timedelta | float | None = None
    count: int | None = None
    states: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())
    seconds: float | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        for value, what in ((self.name, "name"), (self.queue, "queue")):
            if value is not None:
                check_name(value, f"the {what} in Keep")
        if self.count is not None:
            check_whole(self.count, "count in Keep", 0, _MOST)
        object.__setattr__(self, "states", _states(self.state))
        object.__setattr__(self, "seconds", None if self.age is None else _seconds(self.age))

    @property
    def weight(self) -> tuple[bool, bool, bool]:
        """The rank among the rules that apply to a job; the rule with the greatest one counts."""
        return self.name is not None, self.queue is not None, self.state not in (None, ALL)


@dataclass(frozen=True, slots=True)
class Share:
    """The finished jobs of one state that one rule applies to. None for name or queue: any."""

    state: str
    name: str | None = None
    queue: str | None = None
    age: float | None = None
    count: int | None = None

    @property
    def scope(self) -> dict[str, str]:
        """The fields that these jobs share beside their state."""
        return _scope(self.name, self.queue)


class Retention:
    """The rules of one Scheduler, in order."""

    def __init__(
        self, rules: Sequence[Keep] = (), keep_finished: float | None = None, keep_failed: float | None = None
    ) -> None:
        self._shares: dict[tuple[str, str | None, str | None], Share] = {}
        for state in FINISHED:
            for rule in sorted(rules, key=lambda rule: rule.weight):
                if state in rule.states:
                    share = Share(state, rule.name, rule.queue, rule.seconds, rule.count)
                    self._shares[state, rule.name, rule.queue] = share
            age = keep_failed if state == FAILED else keep_finished
            self._shares.setdefault((state, None, None), Share(state, age=age))

    @property
    def ending(self) -> list[Share]:
        """The shares with a limit of age or count."""
        return [share for share in self._shares.values() if share.age is not None or share.count is not None]

    def share_of(self, job: Mapping[str, Any]) -> Share | None:
        """The share that a stored job belongs to."""
        state, name, queue = (_text(job.get(key)) for key in ("state", "name", "queue"))
        for key in ((state, name, queue), (state, name, None), (state, None, queue), (state, None, None)):
            share = self._shares.get(key)  # type: ignore[arg-type]
            if share is not None:
                return share
        return None

    def others_within(self, share: Share) -> Iterator[dict[str, str]]:
        """The scopes of the more specific shares that may contain jobs of this share's scope."""
        for other in self._shares.values():
            if other is not share and other.state == share.state and _may_take(other, share):
                yield other.scope


def check_retention(rules: Sequence[Keep] | None) -> tuple[Keep, ...]:
    """Check the rules; two rules of which neither is more specific are refused."""
    if rules is None:
        return ()
    if isinstance(rules, str | Mapping) or not isinstance(rules, Sequence):
        raise ConfigurationError(f"retention must be a list of Keep(…), not {rules!r:.100}.")
    known: dict[tuple[Any, ...], Keep] = {}
    for rule in rules:
        if not isinstance(rule, Keep):
            raise ConfigurationError(f"retention must be a list of Keep(…); {rule!r:.100} is not one.")
        for state in rule.states:
            other = known.setdefault((rule.weight, state, rule.name, rule.queue), rule)
            if other is not rule:
                raise ConfigurationError(
                    f"Two retention rules apply to the same {state} jobs, and neither is more specific: {other} and "
                    f"{rule}. Remove one, or give it other states."
                )
    return tuple(rules)


def _states(state: object) -> tuple[str, ...]:
    if state is None:
        return _UNLESS_SAID
    if state == ALL:
        return FINISHED
    given = [state] if isinstance(state, str) else state
    if not isinstance(given, Sequence) or not given:
        raise ConfigurationError(f"state in Keep must be a finished state, a list of them or {ALL!r}, not {state!r}.")
    for one in given:
        if one not in FINISHED:
            raise ConfigurationError(
                f"Keep applies to finished jobs, but {one!r} is not a finished state.{suggestion(str(one), FINISHED)}"
            )
    return tuple(dict.fromkeys(given))


def _seconds(age: str | timedelta | float) -> float:
    try:
        seconds = duration_ms(age, "age", ConfigurationError) / 1000
    except ConfigurationError as error:
        raise ConfigurationError(f"In Keep: {error}") from None
    if not 0 <= seconds <= LONGEST:
        raise ConfigurationError(f"age in Keep must be between 0 seconds and ten years, not {age!r}.")
    return seconds


def _may_take(other: Share, share: Share) -> bool:
    """Whether a job of this share's scope may belong to the other, more specific one."""
    if (other.name is not None, other.queue is not None) <= (share.name is not None, share.queue is not None):
        return False
    return share.name in (None, other.name) and (share.queue is None or other.queue in (None, share.queue))


def _scope(name: str | None, queue: str | None) -> dict[str, str]:
    return {key: value for key, value in (("name", name), ("queue", queue)) if value is not None}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
