"""The settings of the service on the wire: the values in force and their sources, never a secret."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field

from mainspring.api.wire.base import Out
from mainspring.model.views.about import DatabaseFacts, KeyIds, Topology

Source = Literal["default", "environment", "program"]


class SettingOut(Out):
    """One setting in force."""

    name: str = Field(examples=["session_hours"])
    value: Any = Field(description='The value; for a secret, "[set]" or null.')
    source: Source = Field(description="default; environment: a variable; program: code, or an option of the command.")
    variable: str | None = Field(
        None, description="The variable of the environment that sets it.", examples=["MAINSPRING_SESSION_HOURS"]
    )


class IndexOut(Out):
    """An index that Mainspring needs."""

    collection: str
    name: str
    present: bool = Field(description="False while it is being built, or if it has another shape.")


class DatabaseOut(Out):
    """The database in use."""

    version: str = Field(description="The version of the MongoDB server.", examples=["6.0.5"])
    topology: Topology
    set_name: str | None = Field(None, description="The name of the replica set.")
    addresses: list[str] = Field(description="The servers, without a user's name or password.")
    embedded: bool = Field(description="Whether it is the server that Mainspring starts itself.")
    database: str
    collection: str = Field(description="The collection of the jobs; the others are named after it.")
    transactions: bool
    indexes: list[IndexOut]

    @classmethod
    def of(cls, facts: DatabaseFacts) -> Self:
        same = ("version", "topology", "set_name", "embedded", "database", "collection", "transactions")
        return cls(
            **{name: getattr(facts, name) for name in same},
            addresses=list(facts.addresses),
            indexes=[IndexOut(collection=one.collection, name=one.name, present=one.present) for one in facts.indexes],
        )


class EncryptionOut(Out):
    """The ids of the keys that this process has, never the keys."""

    key_ids: list[str] = Field(
        description="The ids of the encryption keys; the first one encrypts. Empty if there is none."
    )
    audit_key_ids: list[str] = Field(
        description="The ids of the keys of the audit log; the first one signs. Empty if the log is unsigned."
    )

    @classmethod
    def of(cls, ids: KeyIds) -> Self:
        return cls(key_ids=list(ids.encryption), audit_key_ids=list(ids.audit))


class SettingsOut(Out):
    """The service that answers: its versions, its database, its keys by their ids, and its settings."""

    version: str = Field(description="The version of Mainspring.")
    python: str = Field(examples=["3.13.1"])
    platform: str = Field(examples=["Linux x86_64"])
    access: Literal["key", "local"] = Field(
        description="key: every request needs a key or a session; local: this user on this machine needs none until "
        "the first key exists."
    )
    database: DatabaseOut
    encryption: EncryptionOut
    service: list[SettingOut] = Field(description="The settings of the HTTP service.")
    scheduler: list[SettingOut] = Field(description="The settings of the Scheduler, with durations in seconds.")
