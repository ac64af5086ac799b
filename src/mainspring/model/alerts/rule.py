"""An alert rule: the condition that it watches, where its messages go, and how they are grouped and repeated. Pure.

The namespace `scheduler.alerts` makes rules, `store/alerts/alert_rules.py` stores them, each with the state of its
alert (`model/alerts/episode.py`) in the same document, so that one compare-and-set covers both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict, cast, get_args

from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import EVERYTHING, Scope, make_scope
from mainspring.model.alerts.episode import AlertState
from mainspring.model.jobs.reserved_names import EMAIL, HTTP, QUEUES
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.privacy.credentials import REDACTED

AlertKind = Literal["dead_letters", "schedule_missed", "queue_late", "no_worker", "breaker_open"]
DEAD_LETTERS, SCHEDULE_MISSED, QUEUE_LATE, NO_WORKER, BREAKER_OPEN = KINDS = get_args(AlertKind)
DestinationType = Literal["email", "webhook", "chat"]
DESTINATIONS: tuple[str, ...] = get_args(DestinationType)
MAIL, WEBHOOK, CHAT = DESTINATIONS
AFTER: Mapping[str, float] = {
    DEAD_LETTERS: 0.0,
    SCHEDULE_MISSED: 120.0,
    QUEUE_LATE: 300.0,
    NO_WORKER: 60.0,
    BREAKER_OPEN: 0.0,
}
"""How many seconds the condition of each kind holds before it counts, unless the rule says otherwise."""
MOST_RULES, MOST_DESTINATIONS, MOST_THRESHOLD = 100, 5, 150
_REFERENCE = "secret://"


class RuleOptions(TypedDict, total=False):
    """The options of an alert rule, each of which can be changed later."""

    queues: Sequence[str] | None
    """Only these queues; None means all."""
    prefixes: Sequence[str] | None
    """Only jobs whose names begin with one of these; None means all."""
    after: Seconds | None
    """How long the condition holds before it counts."""
    threshold: int
    """Of dead letters: how many with the same cause within `within` count."""
    within: Seconds
    """Of dead letters: the time in which they are counted."""
    group_window: Seconds
    """How long subjects are gathered for one message, and how long an alert has to be quiet before it is resolved."""
    repeat_every: Seconds | None
    """How often an alert that goes on is told again; None means once."""
    send_resolved: bool
    """Whether a message is sent when the alert is over."""
    enabled: bool
    queue: str | None
    """The queue of the jobs that send the messages; None means that of webhooks or mail."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination of a rule's messages. `data` is the data of the job that sends them, without the message itself."""

    type: str
    data: Mapping[str, Any] = field(repr=False)

    @property
    def job_name(self) -> str:
        return EMAIL if self.type == MAIL else HTTP

    @property
    def shown(self) -> dict[str, Any]:
        """The destination without secrets: a URL shows only its server, and headers only references to secrets."""
        if self.type == MAIL:
            return {"type": self.type, "to": list(self.data["to"])}
        request = self.data["request"]
        shown: dict[str, Any] = {"type": self.type, "url": _shown_url(request["url"], self.data["target"])}
        if request.get("headers"):
            headers = request["headers"].items()
            shown["headers"] = {name: one if _is_reference(one) else REDACTED for name, one in headers}
        if request.get("sign_with"):
            shown["sign_with"] = list(request["sign_with"])
        return shown


def _shown_url(url: str, target: str) -> str:
    return url if url.startswith(_REFERENCE) else f"{target}/{REDACTED}"


def _is_reference(value: str) -> bool:
    """Whether a header's value has no text beside a scheme and a reference to a secret."""
    first, _, rest = value.rpartition(" ")
    return rest.startswith(_REFERENCE) and (first == "" or first.isalpha())


@dataclass(frozen=True, slots=True)
class Silence:
    """A time during which a rule sends nothing."""

    until: datetime
    reason: str
    actor: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A stored alert rule with the state of its alert. Durations are seconds."""

    id: str
    name: str
    kind: AlertKind
    to: tuple[Destination, ...]
    created_at: datetime
    updated_at: datetime
    scope: Scope = EVERYTHING
    after: float = 0.0
    threshold: int = 1
    within: float = 900.0
    group_window: float = 30.0
    repeat_every: float | None = None
    send_resolved: bool = True
    enabled: bool = True
    queue: str | None = None
    silence: Silence | None = None
    actor: str | None = None
    state: AlertState = field(default_factory=AlertState)
    rev: int = 1

    def silenced(self, at: datetime) -> Silence | None:
        """The silence in force at an instant."""
        return self.silence if self.silence is not None and self.silence.until > at else None

    def queue_for(self, destination: Destination) -> str:
        """The queue of the job that sends a message to a destination."""
        return self.queue or QUEUES[destination.job_name]


def check_kind(value: object) -> AlertKind:
    if value not in KINDS:
        raise ConfigurationError(f"The kind of an alert rule is one of {', '.join(KINDS)}, not {value!r:.100}.")
    return cast(AlertKind, value)


def check_options(kind: str, options: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a rule that these options give; `before` are the options in force, for a change."""
    known = RuleOptions.__annotations__
    for name in options:
        if name not in known:
            raise ConfigurationError(f"An alert rule has no option {name!r}; it has {', '.join(known)}.")
    given = {**(before or {}), **options}
    if kind != DEAD_LETTERS and ("threshold" in options or "within" in options):
        raise ConfigurationError("threshold and within are for rules about dead_letters; leave them out.")
    if kind == DEAD_LETTERS and options.get("after"):
        raise ConfigurationError("A dead letter counts at once; a rule about dead_letters has no after, but within.")
    after, repeat, queue = given.get("after"), given.get("repeat_every"), given.get("queue")
    within = seconds(given.get("within", 900.0), "within")
    if within <= 0:
        raise ConfigurationError("within must be more than 0 seconds.")
    if repeat is not None and seconds(repeat, "repeat_every") < _LEAST_REPEAT:
        raise ConfigurationError(f"repeat_every must be at least {_LEAST_REPEAT:g} s; leave it out for one message.")
    return {
        "scope": make_scope(given.get("queues"), given.get("prefixes")),
        "after": AFTER[kind] if after is None else seconds(after, "after"),
        "threshold": check_whole(given.get("threshold", 1), "threshold", 1, MOST_THRESHOLD),
        "within": within,
        "group_window": seconds(given.get("group_window", 30.0), "group_window"),
        "repeat_every": None if repeat is None else seconds(repeat, "repeat_every"),
        "send_resolved": bool(given.get("send_resolved", True)),
        "enabled": bool(given.get("enabled", True)),
        "queue": None if queue is None else check_name(queue, "a queue's name"),
    }


_LEAST_REPEAT = 60.0


def options_of(rule: AlertRule) -> dict[str, Any]:
    """The options of a rule, as its author could have written them."""
    return {
        "queues": rule.scope.queues,
        "prefixes": rule.scope.prefixes,
        "after": None if rule.kind == DEAD_LETTERS else rule.after,
        "threshold": rule.threshold,
        "within": rule.within,
        "group_window": rule.group_window,
        "repeat_every": rule.repeat_every,
        "send_resolved": rule.send_resolved,
        "enabled": rule.enabled,
        "queue": rule.queue,
    }
