"""`scheduler.audit`: reading the audit log, verifying its chain, and sealing it with a key."""

from __future__ import annotations

from typing import Literal

from mainspring.client.core import Core
from mainspring.config.settings import check_name, check_reason
from mainspring.errors import ConfigurationError
from mainspring.model.access.audit import Entry, Row
from mainspring.model.access.audit_chain import SEAL, Link, Verdict
from mainspring.model.unreadable import Listed
from mainspring.spelling import spelled_verbs

AuditStanding = Literal["keyed", "plain", "unsealed"]


@spelled_verbs
class AuditLog:
    """The verbs for the audit log."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def find(
        self, *, before: int | None = None, limit: int = 50, actor: str | None = None, target: str | None = None
    ) -> Listed[Row]:
        """List the audit log, newest first; `before` is the number of the last row of the previous page. `unreadable`
        of the list names rows of the page that cannot be read."""
        return await (await self._core.store()).audit.find(before=before, limit=limit, actor=actor, target=target)

    async def head(self) -> Link:
        """Return the head of the audit log: its last row's number, hash and time. Keep it elsewhere: it proves which
        rows existed."""
        return await (await self._core.store()).audit.head()

    async def check(self) -> AuditStanding:
        """Check, before a change, whether this process can continue the audit log: "keyed" if it signs its rows,
        "plain" if it has no key, "unsealed" if the log has rows that were written without the key and not sealed since.
        Raise AuditKeyMissing if the log is signed with a key that this process does not have."""
        audit = (await self._core.store()).audit
        end = await audit.check_end()
        return "plain" if not audit.keyed else "unsealed" if end.unsealed else "keyed"

    async def seal(self, actor: str, reason: str = "") -> Row:
        """Accept the rows of the audit log that were written without a key: from now on, the key signs them, too, as
        they are. Raise ConfigurationError if this process has no key."""
        store = await self._core.store()
        if not store.audit.keyed:
            raise ConfigurationError(
                "There is no key to sign the audit log with. Set MAINSPRING_AUDIT_KEYS or MAINSPRING_AUDIT_KEYS_FILE; "
                "`mainspring keys new` prints one."
            )
        after = {"reason": check_reason(reason)} if reason else None
        [row] = await store.audit.append(Entry(check_name(actor, "an actor"), SEAL, "audit", after=after))
        return row

    async def verify(self, *, first: int = 1, last: int | None = None, known: Link | None = None) -> Verdict:
        """Check that no row of the audit log was edited, removed or added."""
        return await (await self._core.store()).audit.verify(first, last, known=known)
