"""Templates such as `{{job.id}}` in webhook requests. Pure, and nothing is evaluated.

There is a fixed list of names, and `{{data.path}}` reads the job's data by keys and positions, never by attributes. A
text is read once: inserted values are never read as templates. Any other text between `{{` and `}}` is an error when
the job is made, so that no template is ever sent as it stands. The code that puts a value into a URL, a header or a
document escapes it there.

The filled text has a bound. Its size is added up part by part and refused as soon as it is too large, so that many
templates for one large value cost no more than the bound.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.spelling import suggestion

NAMES = ("timestamp", "job.id", "attempt", "scheduled_at")
DEEPEST = 32
_OPEN = re.compile(r"\{\{")
_HOLE = re.compile(r"\{\{[ \t]*([\w.-]{1,200})[ \t]*\}\}")
_PATH = re.compile(r"data(\.[\w-]+)*")


class TemplateError(ConfigurationError):
    """A template is unknown, or the job's data does not fit it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one attempt; `now` is when it began, on the database's clock, and `token` its fence."""

    job_id: str
    attempt: int
    scheduled_at: datetime
    data: Mapping[str, Any]
    token: int
    now: datetime
    traceparent: str | None = None


class Room:
    """The number of characters that may still be inserted into a text that is filled in."""

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = self._left = most

    def take(self, size: int) -> None:
        """Use so many characters of the room. Raises TemplateError if fewer are left."""
        self._left -= size
        if self._left < 0:
            raise TemplateError(f"{self._what} is larger than {self._most:,} characters when it is filled in.")

    def put(self, text: str) -> str:
        """Use room for a text, and return the text."""
        self.take(len(text))
        return text


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a text where a value is inserted."""

    name: str


Parts = tuple[str | Hole, ...]


def parse_template(text: str, data: Mapping[str, Any] | None = None) -> Parts:
    """The literal parts and the holes of a text; with `data`, each path must lead to a value in it."""
    parts: list[str | Hole] = []
    position = 0
    while opening := _OPEN.search(text, position):
        match = _HOLE.match(text, opening.start())
        if match is None:
            raise TemplateError(_unknown(text[opening.start() : opening.start() + 40]))
        hole = Hole(_known(match[1]))
        if data is not None and hole.name.startswith("data"):
            _follow(data, hole.name)
        parts += [text[position : match.start()], hole]
        position = match.end()
    parts.append(text[position:])
    return tuple(part for part in parts if part != "")


def check_template(text: str, data: Mapping[str, Any] | None = None) -> None:
    """Refuse a text with an unknown template or, if the job's data is given, one that leads nowhere in it."""
    parse_template(text, data)


def check_json(value: Any, data: Mapping[str, Any] | None = None) -> None:
    """Check all texts in a JSON value; the keys of objects cannot have templates."""
    for text, is_key in _texts(value, DEEPEST):
        if is_key and _OPEN.search(text):
            raise TemplateError(f"The key {text[:80]!r} holds a template; only values can.")
        if not is_key:
            parse_template(text, data)


def _texts(value: Any, depth: int) -> Iterator[tuple[str, bool]]:
    if depth < 0:
        raise TemplateError(f"The body is nested deeper than {DEEPEST} levels.")
    if isinstance(value, str):
        yield value, False
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key), True
            yield from _texts(inner, depth - 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, depth - 1)


def render(text: str, facts: Facts, room: Room, escape: Callable[[str], str] = str) -> str:
    """The text with its values inserted, each escaped for its place."""
    return "".join(
        room.put(part if isinstance(part, str) else escape(stringify(part, facts))) for part in parse_template(text)
    )


def render_json(value: Any, facts: Facts, room: Room) -> Any:
    """A JSON value with the values inserted into its texts. A text that is one template and no more becomes the value
    itself, with its type: `"{{data.count}}"` becomes a number if the value is one.
    """
    if isinstance(value, str):
        parts = parse_template(value)
        if len(parts) == 1 and isinstance(parts[0], Hole):
            return _put_value(_value(parts[0], facts), room)
        return render(value, facts, room)
    room.take(1)
    if isinstance(value, Mapping):
        return {room.put(str(key)): render_json(inner, facts, room) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [render_json(inner, facts, room) for inner in value]
    return value


def _put_value(value: Any, room: Room) -> Any:
    """Use room for a value of the data, and return the value; it takes room at each place that it is inserted."""
    room.take(len(value) if isinstance(value, str) else len(dump_json(value)))
    return value


def dump_json(value: Any) -> bytes:
    """A JSON value for the wire: compact, in ASCII, so that every text can be written."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_json_default).encode("ascii")
    except (ValueError, TypeError, RecursionError):
        raise TemplateError("The body holds a value that JSON has no form for, such as NaN or infinity.") from None


def stringify(hole: Hole, facts: Facts) -> str:
    """The value of a hole as text: texts unchanged, instants in UTC, objects, lists and other values as in JSON."""
    value = _value(hole, facts)
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return instant(value)
    if value is None or isinstance(value, bool | int | float | Mapping | list | tuple):
        return dump_json(value).decode()
    return str(value)


def instant(value: datetime) -> str:
    """An instant in UTC with milliseconds, ending in Z."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def for_markup(text: str) -> str:
    """A value for XML or HTML, in text or in a quoted attribute."""
    return html.escape(text, quote=True)


def _json_default(value: Any) -> Any:
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        raise TypeError
    return str(value)


def _value(hole: Hole, facts: Facts) -> Any:
    match hole.name:
        case "timestamp":
            return instant(facts.now)
        case "job.id":
            return facts.job_id
        case "attempt":
            return facts.attempt
        case "scheduled_at":
            return instant(facts.scheduled_at)
        case path:
            return _follow(facts.data, path)


def _known(name: str) -> str:
    if name not in NAMES and not _PATH.fullmatch(name):
        raise TemplateError(_unknown("{{" + name + "}}", name))
    return name


def _unknown(shown: str, name: str = "") -> str:
    close = suggestion(name, [*NAMES, "data"])
    return (
        f"{shown!r} is not a known template.{close} There are {{{{timestamp}}}}, {{{{job.id}}}}, {{{{attempt}}}}, "
        "{{scheduled_at}} and {{data.path}}; to send {{ as it stands, switch templates off for this request."
    )


def value_at(data: Any, path: str) -> Any:
    """The value that a path such as "data.user.name" leads to; None if it leads nowhere."""
    try:
        return _follow(data, path)
    except TemplateError:
        return None


def data_paths(value: Any) -> frozenset[str]:
    """The paths in the job's data that the templates in a JSON value name."""
    holes = (part for text, _ in _texts(value, DEEPEST) for part in parse_template(text) if isinstance(part, Hole))
    return frozenset(hole.name for hole in holes if hole.name not in NAMES)


def _follow(data: Any, path: str) -> Any:
    """The value that a path leads to, by keys of objects and positions in lists only."""
    value = data
    for step in path.split(".")[1:]:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list | tuple) and step.isascii() and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise TemplateError(f"The job's data has nothing at {path!r}, which a template asks for.")
    if isinstance(value, float) and not math.isfinite(value):
        raise TemplateError(f"The job's data has no finite number at {path!r}.")
    return value
