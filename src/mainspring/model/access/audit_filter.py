"""Which rows of the audit log are asked for, and a page of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mainspring.errors import ConfigurationError
from mainspring.model.access.audit import LONGEST_WORD, Row
from mainspring.model.jobs.draft import check_instant
from mainspring.model.unreadable import Listed, Unreadable

_ANY_OF = ".*"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A checked filter of rows. A field that is None does not filter."""

    actor: str | None = None
    target: str | None = None
    action: str | None = None
    """One action; or, if it ends with a dot, all actions that begin with it."""
    since: datetime | None = None
    until: datetime | None = None


EVERY_ROW = AuditFilter()


class AuditPage(Listed[Row]):
    """A page of rows, the newest first. `next` is the `before` of the next page, and None at the end. A page may be
    short or empty although there is a next one: the rows that one page examines are bounded."""

    def __init__(
        self, found: Iterable[Row] = (), unreadable: Iterable[Unreadable] = (), next: int | None = None
    ) -> None:
        super().__init__(found, unreadable)
        self.next = next


def make_audit_filter(
    actor: str | None, target: str | None, action: str | None, since: datetime | None, until: datetime | None
) -> AuditFilter:
    """Check a filter; the error names the first invalid condition. `action` is one action, or `job.*` for all actions
    on jobs."""
    for name, value in (("actor", actor), ("target", target), ("action", action)):
        if value is not None and (not isinstance(value, str) or not 1 <= len(value) <= LONGEST_WORD):
            raise ConfigurationError(f"{name} must be a text of 1 to {LONGEST_WORD} characters, not {value!r:.100}.")
    if action is not None and "*" in action:
        if not action.endswith(_ANY_OF) or "*" in action[:-1] or action == _ANY_OF:
            raise ConfigurationError(f"{action!r:.100} is no action; write one such as job.cancel, or job.* for all.")
        action = action[:-1]
    for name, instant in (("since", since), ("until", until)):
        if instant is not None:
            check_instant(instant, name)
    return AuditFilter(actor, target, action, since, until)
