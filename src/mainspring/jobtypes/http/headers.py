"""The headers of a webhook request: templates and references to secrets filled in, within bounds. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mainspring.jobtypes.http.secret_references import fill_secrets
from mainspring.jobtypes.http.templates import Facts, Hole, Room, TemplateError, parse_template, stringify

LONGEST_HEADER = 8000
_PLAIN = re.compile(r"[\t\x20-\x7e]*")


def is_plain(text: str) -> bool:
    """Whether a text may be part of a header."""
    return _PLAIN.fullmatch(text) is not None


def fill_headers(headers: Mapping[str, str], facts: Facts | None, secrets: Mapping[str, str]) -> dict[str, str]:
    """The headers as they are sent: templates, if there are facts, and references to secrets filled in."""
    return {name: _fill(name, value, facts, secrets) for name, value in headers.items()}


def _fill(name: str, value: str, facts: Facts | None, secrets: Mapping[str, str]) -> str:
    """Fill one header. References are filled in the author's own text only, and in one pass with the templates."""
    room = Room(f"The value for the header {name}", LONGEST_HEADER)
    parts = parse_template(value) if facts else (value,)
    filled = "".join(
        room.put(stringify(part, facts)) if isinstance(part, Hole) and facts else fill_secrets(str(part), secrets, room)
        for part in parts
    )
    if not is_plain(filled):
        raise TemplateError(f"The value for the header {name} has a line break or something else in it that is not "
                            "plain ASCII text; no request was made.")  # fmt: skip
    return filled
