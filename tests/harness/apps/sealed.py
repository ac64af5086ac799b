"""Handlers for processes of their own that deal with secrets: they must be importable, so they live here."""

from __future__ import annotations

import gc

from mainspring.store.privacy.keyring import Keyring
from mainspring.sync import JobContext


def tell(ctx: JobContext, secret: str) -> dict[str, str]:
    """Says and returns what it must not be heard saying."""
    ctx.log(f"told {secret}")
    ctx.progress(50, f"half of {secret}")
    return {"kept": ctx.step("look", lambda: secret), "seen": str(ctx.data["secret"])}


def fail(secret: str) -> None:
    raise ValueError(f"no {secret}")


def commit(ctx: JobContext, secret: str) -> None:
    """Completes in its own transaction, with a child job beside it."""
    ctx.log(f"commits {secret}")
    with ctx.transaction() as tx:
        ctx.schedule("child", {"secret": secret}, session=tx.session)
        tx.result = {"secret": secret}


def find_keys() -> list[str]:
    """The ids of all keys that are in this process."""
    rings = [one for one in gc.get_objects() if isinstance(one, Keyring)]
    return sorted({key_id for ring in rings for key_id in ring.ids})
