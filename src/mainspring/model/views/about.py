"""The facts about a Scheduler's database and its keys, for a page that shows its settings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Topology = Literal["replica set", "sharded cluster", "standalone"]


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """An index that Mainspring needs."""

    collection: str
    name: str
    present: bool
    """False while it is being built, or if it has another shape."""


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The database in use. `addresses` have neither a user's name nor a password."""

    version: str
    topology: Topology
    set_name: str | None
    addresses: tuple[str, ...]
    embedded: bool
    database: str
    collection: str
    transactions: bool
    indexes: tuple[IndexFacts, ...]


@dataclass(frozen=True, slots=True)
class KeyIds:
    """The ids of the keys that this process has; the first one encrypts, or signs. The keys themselves are not here."""

    encryption: tuple[str, ...]
    audit: tuple[str, ...]
