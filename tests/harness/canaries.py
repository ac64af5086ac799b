"""Secrets that are planted, each in a place of its own, and what they are looked for in."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field
from urllib.parse import quote

from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from harness.servers import Servers

UNCOMPRESSED = (
    *("--wiredTigerCollectionBlockCompressor", "none", "--wiredTigerJournalCompressor", "none"),
    *("--wiredTigerIndexPrefixCompression", "false"),
)
"""Arguments of a server whose files are written as they are, so that they can be searched."""


@dataclass
class Canaries:
    """Secrets, each with the place it was planted in."""

    planted: dict[str, str] = field(default_factory=dict)

    def plant(self, place: str, value: str | None = None) -> str:
        return self.planted.setdefault(place, value or f"canary-{secrets.token_hex(16)}")

    def found_in(self, *contents: str | bytes) -> set[str]:
        """The places whose secrets are there, in any form that tells them."""
        whole = b"\n".join(one.encode("utf-8", "replace") if isinstance(one, str) else one for one in contents)
        return {place for place, value in self.planted.items() if any(form in whole for form in _forms(value))}


def _forms(value: str) -> set[bytes]:
    """As it is, as a URL or hex has it, and as base64 has it, wherever in a longer text it begins."""
    plain = value.encode()
    forms = {plain, plain.removeprefix(b"whsec_"), quote(value, safe="").encode(), plain.hex().encode()}
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + plain)
        forms.add(encoded[(offset * 8 + 5) // 6 : (offset + len(plain)) * 8 // 6])
    return forms


def files(servers: Servers) -> bytes:
    """All that the server has on disk: data, indexes, journal and log."""
    with servers.primary().client() as client:
        client.admin.command("fsync")
    return b"\n".join(path.read_bytes() for path in sorted(servers.folder.rglob("*")) if path.is_file())


def documents(servers: Servers) -> bytes:
    """Every document of every collection, the oplog included, as it is stored."""
    found = []
    address = servers.nodes[0].address
    with MongoClient[RawBSONDocument](address, directConnection=True, document_class=RawBSONDocument) as client:
        for database in client.list_database_names():
            for collection in client[database].list_collection_names():
                found += [document.raw for document in client[database][collection].find()]
    return b"\n".join(found)
