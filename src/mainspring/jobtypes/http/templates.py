"""Templates such as `{{job.id}}` in webhook requests. Pure, and nothing is evaluated.

There is a fixed list of names, and `{{data.path}}` reads the job's data by keys and positions, never by attributes. A
text is read once: what is put in is never looked at again. Whatever stands between `{{` and `}}` and is none of these
is an error when the job is made, so that no template is ever sent as it stands. Who puts a value into a URL, a header
or a document escapes it there.
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

from mainspring.config import suggestion
from mainspring.errors import ConfigurationError

NAMES = ("timestamp", "job.id", "attempt", "scheduled_at")
DEEPEST = 32
_OPEN = re.compile(r"\{\{")
_HOLE = re.compile(r"\{\{[ \t]*([\w.-]{1,200})[ \t]*\}\}")
_PATH = re.compile(r"data(\.[\w-]+)*")


class TemplateError(ConfigurationError):
    """A template is unknown, or the job's data does not fit it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one attempt; `now` is when it began, on the database's clock, and `token` its fence."""

    job_id: str
    attempt: int
    scheduled_at: datetime
    data: Mapping[str, Any]
    token: int
    now: datetime
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a text where a value is put in."""

    name: str


Parts = tuple[str | Hole, ...]


def parse_template(text: str, data: Mapping[str, Any] | None = None) -> Parts:
    """The literal parts and the holes of a text; with `data`, its paths are checked to lead somewhere."""
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
    """Refuse a text with an unknown template, or, where the job's data is given, one that leads nowhere in it."""
    parse_template(text, data)


def check_json(value: Any, data: Mapping[str, Any] | None = None) -> None:
    """The same for all texts in a JSON value; the keys of objects cannot hold templates."""
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


def render(text: str, facts: Facts, escape: Callable[[str], str] = str) -> str:
    """The text with its values put in, each escaped for where it stands."""
    return "".join(part if isinstance(part, str) else escape(stringify(part, facts)) for part in parse_template(text))


def render_json(value: Any, facts: Facts) -> Any:
    """A JSON value with the values put into its texts. A text that is one template and no more becomes the value
    itself, with its type: `"{{data.count}}"` becomes a number where that is one.
    """
    if isinstance(value, str):
        parts = parse_template(value)
        if len(parts) == 1 and isinstance(parts[0], Hole):
            return _value(parts[0], facts)
        return render(value, facts)
    if isinstance(value, Mapping):
        return {key: render_json(inner, facts) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [render_json(inner, facts) for inner in value]
    return value


def dump_json(value: Any) -> bytes:
    """A JSON value for the wire: compact, in ASCII, so that every text there is can be written."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_json_default).encode("ascii")
    except (ValueError, TypeError, RecursionError):
        raise TemplateError("The body holds a value that JSON has no form for, such as NaN or infinity.") from None


def stringify(hole: Hole, facts: Facts) -> str:
    """The value of a hole as text: instants in UTC, objects and lists as JSON, everything else as it is in JSON."""
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
        f"{shown!r} is no known template.{close} There are {{{{timestamp}}}}, {{{{job.id}}}}, {{{{attempt}}}}, "
        "{{scheduled_at}} and {{data.path}}; to send {{ as it stands, switch templates off for this request."
    )


def _follow(data: Any, path: str) -> Any:
    """The value that a path leads to: keys of objects and positions in lists, and nothing else."""
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
