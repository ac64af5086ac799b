"""`scheduler.audit`: reading the audit log, verifying its chain, and sealing it with a key."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from mainspring.client.core import Core
from mainspring.config.settings import check_name, check_reason
from mainspring.errors import ConfigurationError
from mainspring.model.access.audit import SEAL, Entry, Link, Row, Verdict
from mainspring.model.access.audit_filter import AuditPage, make_audit_filter
from mainspring.spelling import spelled_verbs

AuditStanding = Literal["keyed", "plain", "unsealed"]


@spelled_verbs
class AuditLog:
    """The verbs for the audit log."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def find(
        self,
        *,
        before: int | None = None,
        limit: int = 50,
        actor: str | None = None,
        target: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AuditPage:
        """List the audit log, newest first. `actor`, `target` and `action` match exactly, except that `job.*` matches
        all actions on jobs. `since` is inclusive, `until` exclusive. `before` is the `next` of the previous page, or
        the number of a row. A page may be short although its `next` is not None. `unreadable` of the page names rows
        that cannot be read."""
        wanted = make_audit_filter(actor, target, action, since, until)
        return await (await self._core.store()).audit.find(wanted, before=before, limit=limit)

    async def head(self) -> Link:
        """Return the head of the audit log: the number, hash and time of its last row. Keep it elsewhere: it proves
        which rows existed."""
        return await (await self._core.store()).audit.head()

    async def check(self) -> AuditStanding:
        """Check, before a change, whether this process can append to the audit log. Return "keyed" if it signs its
        rows, "plain" if it has no key, and "unsealed" if the log has rows that were written without the key and not
        sealed since. Raise AuditKeyMissing if the log is signed with a key that this process does not have."""
        audit = (await self._core.store()).audit
        end = await audit.check_end()
        return "plain" if not audit.keyed else "unsealed" if end.unsealed else "keyed"

    async def seal(self, actor: str, reason: str = "") -> Row:
        """Accept the rows of the audit log that were written without a key: from now on, the key also signs these rows
        as they are. Raise ConfigurationError if this process has no key."""
        store = await self._core.store()
        if not store.audit.keyed:
            raise ConfigurationError(
                "There is no key to sign the audit log with. Set MAINSPRING_AUDIT_KEYS or MAINSPRING_AUDIT_KEYS_FILE; "
                "`mainspring generate-key` prints one."
            )
        after = {"reason": check_reason(reason)} if reason else None
        [row] = await store.audit.append(Entry(check_name(actor, "an actor"), SEAL, "audit", after=after))
        return row

    async def verify(self, *, first: int = 1, last: int | None = None, known: Link | None = None) -> Verdict:
        """Check that no row of the audit log was edited, removed or added."""
        if last is not None and last < first:
            raise ConfigurationError(f"last, {last}, is before first, {first}; there are no rows between them.")
        return await (await self._core.store()).audit.verify(first, last, known=known)
