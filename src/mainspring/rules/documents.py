"""Reading rules from stored documents: which class reads which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mainspring.errors import InvalidSchedule
from mainspring.rules.any_of import AnyOf, check_depth
from mainspring.rules.at import At
from mainspring.rules.cron import Cron
from mainspring.rules.every import Every
from mainspring.rules.exclusion import Except
from mainspring.rules.rrule.rrule import RRule
from mainspring.rules.rule import Rule

_KINDS: dict[str, Callable[[Mapping[str, Any]], Rule]] = {
    "cron": Cron.from_document,
    "every": Every.from_document,
    "at": At.from_document,
    "rrule": RRule.from_document,
    "any": AnyOf.from_document,
    "except": Except.from_document,
}


def rule_from_document(document: Mapping[str, Any]) -> Rule:
    """The rule that `to_document` was called on. Other documents are refused."""
    if not isinstance(document, Mapping):
        raise InvalidSchedule(f'A rule is stored as a document with a "kind", not as {document!r}.')
    kind = document.get("kind")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InvalidSchedule(
            f"{kind!r} is not a kind of rule; known are {', '.join(_KINDS)}. "
            "A newer version of Mainspring may have stored it: upgrade this one."
        )
    check_depth(_inner(document), _inner)  # before it is read, since reading recurses
    return read(document)


def _inner(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules = document.get("rules")
    inner = [document.get("rule"), *(rules if isinstance(rules, list | tuple) else ())]
    return [part for part in inner if isinstance(part, Mapping)]
