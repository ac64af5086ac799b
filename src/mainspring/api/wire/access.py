"""API keys, sessions and the audit log on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from mainspring.api.middleware.authentication import Principal
from mainspring.api.wire.base import In, Instant, InstantIn, Out, Span
from mainspring.model.access.api_keys import Key, Role, Scope
from mainspring.model.access.audit import Link, Row, Verdict
from mainspring.model.fields import Fields

_HINT = "The text of this key was shown once, in the answer to the first request; if it was lost, rotate the key."
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1, max_length=100)]


class Reach(Out):
    """The scope of a key: its queues, and the prefixes of job names. Null means all."""

    queues: list[str] | None = None
    prefixes: list[str] | None = None

    @classmethod
    def of(cls, scope: Scope) -> Self:
        return cls(
            queues=None if scope.queues is None else list(scope.queues),
            prefixes=None if scope.prefixes is None else list(scope.prefixes),
        )


class KeyCreation(In):
    """The body that creates a key."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "billing", "role": "operator", "queues": ["billing"]}]}
    )

    name: Annotated[str, Field(min_length=1, max_length=200, description="A name of your choice.")]
    role: Role | None = Field(None, description="By default, the first key is an admin and all others are operators.")
    queues: Names | None = Field(None, description="The queues that the key reaches; all by default.")
    prefixes: Names | None = Field(
        None, description="The prefixes of the job names that the key reaches; all by default."
    )
    expires_at: InstantIn | None = None


class KeyRotation(In):
    """The body that rotates a key."""

    grace: Span = Field("0s", description="How long the old secret stays valid; at most 30 days.")


class KeyFacts(Out):
    """An API key: everything but its secret."""

    id: str
    name: str
    role: Role
    scope: Reach
    created_at: Instant
    created_by: str | None = None
    expires_at: Instant | None = None
    last_used_at: Instant | None = Field(None, description="To the minute.")
    rotated_at: Instant | None = None
    old_until: Instant | None = Field(
        None, description="The instant at which the secret before the last rotation expires."
    )
    revoked_at: Instant | None = None

    @classmethod
    def values(cls, key: Key) -> Fields:
        times = {one: getattr(key, one) for one in ("created_at", "expires_at", "last_used_at", "rotated_at")}
        return {
            **{one: getattr(key, one) for one in ("id", "name", "role", "old_until", "revoked_at")},
            **times,
            "scope": Reach.of(key.scope),
            "created_by": key.actor,
        }

    @classmethod
    def of(cls, key: Key) -> Self:
        return cls(**cls.values(key))


class NewKeyFacts(KeyFacts):
    """A key that was just created or rotated, with its text; without it in the answer to a repeated request."""

    key: str | None = Field(
        description="The key itself, which only this answer shows. Null in the answer to a repeated request with the "
        "same Idempotency-Key.",
        examples=["ms_…_…"],
    )
    hint: str | None = Field(None, description="The cure if the key is not shown.")

    @classmethod
    def shown(cls, key: Key, text: str) -> Self:
        return cls(**cls.values(key), key=text)

    @classmethod
    def hidden(cls, key: Key) -> Self:
        return cls(**cls.values(key), key=None, hint=_HINT)


class SessionFacts(Out):
    """The caller of this request, and its rights."""

    way: Literal["key", "session", "local"] = Field(
        description="How the caller was authenticated; local: by being on this machine while there is no key."
    )
    actor: str = Field(description="The caller's name in the audit log.")
    name: str | None = Field(None, description="The name of the key.")
    role: Role
    scope: Reach
    expires_at: Instant | None = Field(None, description="When the session, or the key, ends.")
    csrf_token: str | None = Field(
        None, description="The token that a session must send in the header X-Csrf-Token with each change."
    )

    @classmethod
    def of(cls, principal: Principal, csrf_token: str | None = None) -> Self:
        key, session = principal.key, principal.session
        ends = [one.expires_at for one in (key, session) if one is not None and one.expires_at is not None]
        same = {one: getattr(principal, one) for one in ("way", "actor", "role")}
        name, end = None if key is None else key.name, min(ends, default=None)
        return cls(**same, name=name, scope=Reach.of(principal.scope), expires_at=end, csrf_token=csrf_token)


class AuditRow(Out):
    """A row of the audit log."""

    n: int
    id: str
    at: Instant
    actor: str
    address: str | None = None
    action: str = Field(examples=["job.cancel"])
    target: str
    before: Any = None
    after: Any = None
    key: str | None = Field(None, description="The id of the audit key that its hash was made with, if any.")
    prev: str = Field(description="The hash of the previous row.")
    hash: str

    @classmethod
    def of(cls, row: Row) -> Self:
        plain = {one: getattr(row, one) for one in ("n", "id", "at", "actor", "address", "action", "target", "key")}
        return cls(**plain, before=row.value_before(), after=row.value_after(), prev=row.prev, hash=row.hash)


class AuditLink(Out):
    """A place in the audit log's chain."""

    n: int
    hash: str
    at: Instant

    @classmethod
    def of(cls, link: Link) -> Self:
        return cls(n=link.n, hash=link.hash, at=link.at)


class AuditVerdict(Out):
    """The result of a check of the audit log."""

    ok: bool
    checked: int = Field(description="The number of valid rows.")
    broken: int | None = Field(None, description="The number of the first invalid row.")
    reason: str = ""
    keyed: bool = Field(description="Whether the hashes of all these rows use a key outside the database.")
    last: AuditLink = Field(
        description="The last valid row. Keep it elsewhere: it shows if a program has written a new log."
    )

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        return cls(
            ok=verdict.ok,
            checked=verdict.checked,
            broken=verdict.broken,
            reason=verdict.reason,
            keyed=verdict.keyed,
            last=AuditLink.of(verdict.last),
        )
