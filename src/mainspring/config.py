"""Settings, validated once, when a Scheduler is made.

Who calls it: `scheduler.py`. Everything below it receives a finished `Settings` and never looks at the environment.
Durations are seconds here; users may give timedeltas.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches

from mainspring.errors import ConfigurationError

DEFAULT_DATABASE = "mainspring"
DEFAULT_FOLDER = ".mainspring"
EMBEDDED = "embedded:"
URI_VARIABLES = ("MAINSPRING_URI", "MONGODB_URI", "MONGO_URI")

KIB = 1024
_BAD_DATABASE = re.compile(r'[/\\. "$*<>:|?\0]')


@dataclass(frozen=True, slots=True)
class Settings:
    """What a Scheduler was told, with its defaults. See `docs/reference/settings.md` for what each one does."""

    database: str | None = None
    collection: str = "jobs"
    queues: tuple[str, ...] | None = None
    concurrency: int = 10
    lease: float = 60.0
    poll_interval: float = 1.0
    timeout: float | None = None
    grace: float = 25.0
    keep_finished: float | None = 7 * 86400.0
    keep_failed: float | None = None
    keep_ledger: float | None = 90 * 86400.0
    keep_stats: float | None = 30 * 86400.0
    max_data: int = 256 * KIB
    max_result: int = 64 * KIB
    operation_timeout: float = 10.0
    prefetch: int = 1000
    app: str = "default"
    undeclared: str = "report"
    aging: float | None = None
    encrypt: bool | tuple[str, ...] = False
    redact: tuple[str, ...] | None = None

    @property
    def renew_every(self) -> float:
        """A claim is renewed when a third of its lease has passed."""
        return self.lease / 3

    @property
    def renew_timeout(self) -> float:
        """A renewal that takes longer than this is given up and tried again."""
        return self.lease / 6.5

    @property
    def fence_margin(self) -> float:
        """A handler is cancelled this long before its lease ends on the server."""
        return self.lease / 6

    @property
    def rescue_grace(self) -> float:
        """A lease counts as run out this long after its end, so that a new primary's clock may differ a little."""
        return min(2.0, self.lease / 4)


def make_settings(options: Mapping[str, object]) -> Settings:
    """Validate options as users give them (durations as seconds or timedelta, lists for tuples)."""
    known = set(Settings.__dataclass_fields__)
    values: dict[str, object] = {}
    for key, value in options.items():
        if key not in known:
            raise ConfigurationError(f"Scheduler has no option {key!r}.{suggestion(key, sorted(known))}")
        values[key] = value.total_seconds() if isinstance(value, timedelta) else value
    for key, low in (("lease", 0.5), ("poll_interval", 0.01), ("operation_timeout", 0.1), ("grace", 0.0)):
        _number(values, key, low)
    optional = {
        "timeout": 0.001,
        "keep_finished": 0.0,
        "keep_failed": 0.0,
        "keep_ledger": 0.0,
        "keep_stats": 0.0,
        "aging": 0.1,
    }
    for key, low in optional.items():
        if values.get(key) is not None:
            _number(values, key, low)
    for key, least in (("concurrency", 1), ("max_data", 1), ("max_result", 0), ("prefetch", 0)):
        _whole(values, key, least)
    for key in ("encrypt", "redact"):
        if isinstance(values.get(key), list):
            values[key] = tuple(values[key])  # type: ignore[arg-type]
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
            f"{without_password(uri)!r} is no MongoDB URI; it must begin with mongodb://, mongodb+srv:// or {EMBEDDED}"
        )
    return uri


def without_password(uri: str) -> str:
    """A URI as it may be shown; whatever stands before the last @ may belong to a password."""
    return re.sub(r"//.*@", "//…@", uri)


def _number(values: dict[str, object], key: str, low: float) -> None:
    if key not in values:
        return
    value = values[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < 1e10:
        raise ConfigurationError(f"{key} must be seconds or a timedelta of at least {low:g} s, not {value!r}.")
    values[key] = float(value)


def _whole(values: dict[str, object], key: str, least: int) -> None:
    value = values.get(key, least)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{key} must be a whole number of at least {least}, not {value!r}.")


def _names(values: dict[str, object]) -> None:
    queues = values.get("queues")
    if queues is not None:
        if isinstance(queues, str) or not isinstance(queues, Sequence) or not queues:
            raise ConfigurationError(f"queues must be a list of queue names, or None for all, not {queues!r}.")
        values["queues"] = tuple(dict.fromkeys(check_name(queue, "a queue's name") for queue in queues))
    database = values.get("database")
    if database is not None and (not isinstance(database, str) or not database or _BAD_DATABASE.search(database)):
        raise ConfigurationError(f"{database!r} is no valid database name; use letters, digits, '-' and '_'.")
    collection = values.get("collection", "jobs")
    if (
        not isinstance(collection, str)
        or not collection
        or "$" in collection
        or "\0" in collection
        or collection.startswith("system.")
    ):
        raise ConfigurationError(f"{collection!r} is no valid collection name; use letters, digits, '-', '_' and '.'.")


def _app(values: dict[str, object]) -> None:
    app = check_name(values.get("app", "default"), "app")
    undeclared = values.get("undeclared", "report")
    if undeclared not in ("report", "remove"):
        raise ConfigurationError(f"undeclared must be report or remove, not {undeclared!r}.")
    if undeclared == "remove" and app == "default":
        raise ConfigurationError(
            'undeclared="remove" deletes the schedules that this app declared before and does not any more; '
            'say which app this is with app="…", so that it does not delete those of another program.'
        )


def suggestion(word: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown word: the one that was probably meant, or all there are."""
    close = get_close_matches(word, known, 1)
    return f" Did you mean {close[0]!r}?" if close else f" Known are: {', '.join(known)}."


def check_reason(value: object) -> str:
    """Why somebody does something, in his words."""
    if not isinstance(value, str) or len(value) > 1000:
        raise ConfigurationError(f"A reason is a text of at most 1,000 characters, not {value!r:.100}.")
    return value


def check_actor(value: object) -> str | None:
    """Who does something; None where nobody says."""
    return None if value is None else check_name(value, "an actor")


def check_name(value: object, what: str) -> str:
    """A name of a job, queue or tag: text of 1 to 200 characters without control characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= 200 or not value.isprintable():
        raise ConfigurationError(f"{what} must be printable text of 1 to 200 characters, not {value!r}.")
    return value
