"""Rules out of stored documents: which class reads which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mainspring.cron import Cron
from mainspring.errors import InvalidSchedule
from mainspring.model.rules.any_of import DEEPEST, AnyOf
from mainspring.model.rules.at import At
from mainspring.model.rules.every import Every
from mainspring.model.rules.exclusion import Except
from mainspring.model.rules.rrule import RRule
from mainspring.model.rules.rule import Rule

_KINDS: dict[str, Callable[[Mapping[str, Any]], Rule]] = {
    "cron": Cron.from_document,
    "every": Every.from_document,
    "at": At.from_document,
    "rrule": RRule.from_document,
    "any": AnyOf.from_document,
    "except": Except.from_document,
}


def rule_from_document(document: Mapping[str, Any]) -> Rule:
    """The rule that `to_document` made this of. A document that is no rule is refused."""
    if not isinstance(document, Mapping):
        raise InvalidSchedule(f'A rule is stored as a document with a "kind", not as {document!r}.')
    kind = document.get("kind")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InvalidSchedule(
            f"{kind!r} is no kind of rule; known are {', '.join(_KINDS)}. "
            "A newer version of Mainspring may have stored it: upgrade this one."
        )
    _check_depth(document)
    return read(document)


def _check_depth(document: Mapping[str, Any]) -> None:
    """Look before reading: what is nested too deep must not be followed down."""
    level: list[Mapping[str, Any]] = [document]
    for _ in range(DEEPEST + 1):
        level = [part for one in level for part in _inner(one)]
        if not level:
            return
    raise InvalidSchedule(f"Rules can be combined {DEEPEST} levels deep; this one is deeper. Make several schedules.")


def _inner(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules = document.get("rules")
    inner = [document.get("rule"), *(rules if isinstance(rules, list | tuple) else ())]
    return [part for part in inner if isinstance(part, Mapping)]
