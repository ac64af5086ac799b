"""Rules as mappings, such as `{"cron": "0 9 * * *", "timezone": "Europe/Paris"}`, for programs that were written for
other schedulers. Durations are seconds or texts, as everywhere in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mainspring.errors import InvalidSchedule
from mainspring.rules.cron import Cron
from mainspring.rules.every import Every
from mainspring.rules.rrule.rrule import RRule
from mainspring.spelling import suggestion

_KINDS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "cron": (Cron, ("timezone",)),
    "every": (Every, ("after",)),
    "rrule": (RRule, ("timezone",)),
}


def spelled(value: object) -> object:
    """The rule of a mapping; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    given = [kind for kind in _KINDS if kind in value]
    if len(given) != 1:
        raise InvalidSchedule(f"repeat as a mapping has one of {', '.join(_KINDS)}, not {sorted(map(str, value))}.")
    make, options = _KINDS[given[0]]
    for key in value:
        if key not in (given[0], *options):
            raise InvalidSchedule(f"repeat with {given[0]} has no {key!r}.{suggestion(str(key), options)}")
    return make(value[given[0]], **{key: value[key] for key in options if value.get(key) is not None})
