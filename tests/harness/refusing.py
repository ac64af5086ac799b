"""Documents that the server refuses to change, as it does one that would be too large."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from harness.looking import Database


@asynccontextmanager
async def refusing(db: Database, collection: str, condition: dict[str, Any]) -> AsyncIterator[None]:
    """Let the server refuse every write that would leave a document for which this is true."""
    await db.command("collMod", collection, validator={"$nor": [condition]}, validationLevel="strict")
    try:
        yield
    finally:
        await db.command("collMod", collection, validator={})
