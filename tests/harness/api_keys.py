"""Asking the service with a key, and what the audit log says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.model.access.api_keys import Role

if TYPE_CHECKING:
    from api.conftest import Api


async def keyed(api: Api, role: Role = "admin", **scope: Any) -> Api:
    """The same service, asked with a new key."""
    made = await api.scheduler.api_keys.create(f"key of a {role}", role, **scope)
    return api.with_key(made.text)


async def actions(api: Api) -> list[tuple[str, str]]:
    """What the audit log tells of, in order: actions and their targets."""
    return [(row.action, row.target) for row in reversed(await api.scheduler.audit.find(limit=200))]
