"""Settings, validated once, when a Scheduler is made.

Called by `client/scheduler.py`. All layers below receive a finished `Settings` and never read the environment.
Durations are seconds here; callers may give timedeltas and texts as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict

from mainspring.config.checks import check_whole
from mainspring.config.field_map import FieldMap, make_field_map
from mainspring.durations import Duration, duration_ms
from mainspring.errors import ConfigurationError
from mainspring.spelling import suggestion

DEFAULT_DATABASE = "mainspring"
DEFAULT_FOLDER = ".mainspring"
EMBEDDED = "embedded:"
URI_VARIABLES = ("MAINSPRING_URI", "MONGODB_URI", "MONGO_URI")

KIB = 1024
MIB = KIB * KIB
# A document of MongoDB has 16 MiB at most: for a job its data and the results of its steps (9 MiB together), its
# result, its attempts with their logs (3 MiB) and the log of the running attempt (half a MiB).
MOST_DATA, MOST_RESULT, MOST_STEPS = 8 * MIB, 2 * MIB, 8 * MIB
MOST_DATA_AND_STEPS = 9 * MIB
_SHORTEST = {
    "lease": 0.5,
    "poll_interval": 0.01,
    "operation_timeout": 0.1,
    "grace": 0.0,
    "timeout": 0.001,
    "start_within": 0.0,
    "keep_finished": 0.0,
    "keep_failed": 0.0,
    "keep_ledger": 0.0,
    "keep_stats": 0.0,
    "aging": 0.1,
}
_OPTIONAL = ("timeout", "start_within", "keep_finished", "keep_failed", "keep_ledger", "keep_stats", "aging")
_BAD_DATABASE = re.compile(r'[/\\. "$*<>:|?\0]')


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a Scheduler, with their defaults. `docs/reference/settings.md` describes each."""

    database: str | None = None
    collection: str = "jobs"
    queues: tuple[str, ...] | None = None
    concurrency: int = 10
    lease: float = 60.0
    poll_interval: float = 1.0
    timeout: float | None = None
    start_within: float | None = None
    grace: float = 25.0
    keep_finished: float | None = 7 * 86400.0
    keep_failed: float | None = None
    keep_ledger: float | None = 90 * 86400.0
    keep_stats: float | None = 30 * 86400.0
    max_data: int = 256 * KIB
    max_result: int = 64 * KIB
    max_steps_size: int = MIB
    operation_timeout: float = 10.0
    prefetch: int = 1000
    app: str = "default"
    undeclared: str = "report"
    aging: float | None = None
    encrypt: bool | tuple[str, ...] = False
    redact: tuple[str, ...] | None = None
    field_map: FieldMap | None = None
    release: str | None = None

    @property
    def renew_every(self) -> float:
        """The heartbeat renews a claim when a third of its lease has passed."""
        return self.lease / 3

    @property
    def renew_timeout(self) -> float:
        """A renewal that takes longer than this is abandoned and retried."""
        return self.lease / 6.5

    @property
    def fence_margin(self) -> float:
        """A handler is cancelled this long before its lease ends on the server."""
        return self.lease / 6

    @property
    def rescue_grace(self) -> float:
        """A job is rescued this long after the end of its lease, since a new primary's clock may differ a little."""
        return min(2.0, self.lease / 4)


class SchedulerOptions(TypedDict, total=False):
    """The settings as callers give them: durations as seconds, timedelta or text, lists for tuples."""

    database: str | None
    collection: str
    queues: Sequence[str] | None
    concurrency: int
    lease: Duration
    poll_interval: Duration
    timeout: Duration | None
    start_within: Duration | None
    grace: Duration
    keep_finished: Duration | None
    keep_failed: Duration | None
    keep_ledger: Duration | None
    keep_stats: Duration | None
    max_data: int
    max_result: int
    max_steps_size: int
    operation_timeout: Duration
    prefetch: int
    app: str
    undeclared: Literal["report", "remove"]
    aging: Duration | None
    encrypt: bool | Sequence[str]
    redact: Sequence[str] | None
    field_map: FieldMap | Mapping[str, object] | str | None
    release: str | None


def make_settings(options: Mapping[str, object]) -> Settings:
    """Validate options as callers give them; see `SchedulerOptions`."""
    known = set(Settings.__dataclass_fields__)
    unknown = next((key for key in options if key not in known), None)
    if unknown is not None:
        raise ConfigurationError(f"Scheduler has no option {unknown!r}.{suggestion(unknown, sorted(known))}")
    values: dict[str, object] = dict(options)
    for key, low in _SHORTEST.items():
        if key in values and (values[key] is not None or key not in _OPTIONAL):
            values[key] = _duration(values[key], key, low)
    for key, least in (("concurrency", 1), ("max_data", 1), ("max_result", 0), ("max_steps_size", 0), ("prefetch", 0)):
        _whole(values, key, least)
    for key, most in (("max_data", MOST_DATA), ("max_result", MOST_RESULT), ("max_steps_size", MOST_STEPS)):
        _bytes(values, key, most)
    _together(values)
    for key in ("encrypt", "redact"):
        if isinstance(values.get(key), list):
            values[key] = tuple(values[key])  # type: ignore[arg-type]
    values["field_map"] = make_field_map(values.get("field_map"))
    _names(values)
    _app(values)
    return Settings(**values)  # type: ignore[arg-type]


def choose_uri(uri: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The URI in force: the argument, then the environment, then the embedded server in its default folder."""
    if uri is None:
        uri = next((environment[name] for name in URI_VARIABLES if environment.get(name)), EMBEDDED + DEFAULT_FOLDER)
    if not isinstance(uri, str) or not uri.strip():
        raise ConfigurationError("The URI is empty; leave it out to use the embedded MongoDB.")
    if not uri.startswith((EMBEDDED, "mongodb://", "mongodb+srv://")):
        raise ConfigurationError(
            f"{without_password(uri)!r} is not a MongoDB URI; it must begin with mongodb://, mongodb+srv:// or "
            f"{EMBEDDED}"
        )
    return uri


def without_password(uri: str) -> str:
    """A URI that may be shown: everything before the last @ may belong to a password, and is masked."""
    return re.sub(r"//.*@", "//…@", uri)


def _duration(value: object, key: str, low: float) -> float:
    length = duration_ms(value, key, ConfigurationError) / 1000 if isinstance(value, str) else value
    if isinstance(length, timedelta):
        length = length.total_seconds()
    if isinstance(length, bool) or not isinstance(length, int | float) or not low <= length < 1e10:
        raise ConfigurationError(
            f'{key} must be seconds, a timedelta or text such as "5m", of at least {low:g} s, not {value!r}.'
        )
    return float(length)


def _whole(values: dict[str, object], key: str, least: int) -> None:
    check_whole(values.get(key, least), key, least)


def _bytes(values: dict[str, object], key: str, most: int) -> None:
    value = values.get(key, 0)
    if isinstance(value, int) and value > most:
        raise ConfigurationError(
            f"{key} must be at most {most:,} bytes, not {value:,}: a job must fit into one MongoDB document of at "
            "most 16 MiB. Store the bulk elsewhere and pass a reference."
        )


def _together(values: dict[str, object]) -> None:
    fields = Settings.__dataclass_fields__
    data, steps = (values.get(key, fields[key].default) for key in ("max_data", "max_steps_size"))
    if isinstance(data, int) and isinstance(steps, int) and data + steps > MOST_DATA_AND_STEPS:
        raise ConfigurationError(
            f"max_data and max_steps_size must be at most {MOST_DATA_AND_STEPS:,} bytes together, not "
            f"{data + steps:,}: a job must fit into one MongoDB document of at most 16 MiB."
        )


def _names(values: dict[str, object]) -> None:
    queues = values.get("queues")
    if queues is not None:
        if isinstance(queues, str) or not isinstance(queues, Sequence) or not queues:
            raise ConfigurationError(f"queues must be a list of queue names, or None for all, not {queues!r}.")
        values["queues"] = tuple(dict.fromkeys(check_name(queue, "a queue's name") for queue in queues))
    database = values.get("database")
    if database is not None and (not isinstance(database, str) or not database or _BAD_DATABASE.search(database)):
        raise ConfigurationError(f"{database!r} is not a valid database name; use letters, digits, '-' and '_'.")
    collection = values.get("collection", "jobs")
    if (
        not isinstance(collection, str)
        or not collection
        or "$" in collection
        or "\0" in collection
        or collection.startswith("system.")
    ):
        raise ConfigurationError(
            f"{collection!r} is not a valid collection name; use letters, digits, '-', '_' and '.'."
        )


def _app(values: dict[str, object]) -> None:
    app = check_name(values.get("app", "default"), "app")
    if values.get("release") is not None:
        check_name(values["release"], "release")
    undeclared = values.get("undeclared", "report")
    if undeclared not in ("report", "remove"):
        raise ConfigurationError(f"undeclared must be report or remove, not {undeclared!r}.")
    if undeclared == "remove" and app == "default":
        raise ConfigurationError(
            'undeclared="remove" deletes the schedules that this app declared before and no longer declares; '
            'say which app this is with app="…", so that it does not delete those of another program.'
        )


def check_reason(value: object) -> str:
    """The caller's reason for a change."""
    if not isinstance(value, str) or len(value) > 1000:
        raise ConfigurationError(f"A reason is a text of at most 1,000 characters, not {value!r:.100}.")
    return value


def check_actor(value: object) -> str | None:
    """The actor of a change; None if the caller names none."""
    return None if value is None else check_name(value, "an actor")


def check_name(value: object, what: str) -> str:
    """A name of a job, queue or tag: text of 1 to 200 characters without control characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= 200 or not value.isprintable():
        raise ConfigurationError(f"{what} must be printable text of 1 to 200 characters, not {value!r}.")
    return value
