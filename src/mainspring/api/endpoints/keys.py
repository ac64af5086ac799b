"""API keys over HTTP: made, listed, rotated and revoked by admins. Who has a scope gives away no more than he has."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path

from mainspring.api.problems import Problem
from mainspring.api.service import Admin, Caller
from mainspring.api.wire.access import KeyCreation, KeyFacts, KeyRotation, NewKeyFacts
from mainspring.api.wire.base import Answer
from mainspring.errors import KeyNotFound
from mainspring.model.access import Key, make_scope

router = APIRouter(tags=["access"])

KeyId = Annotated[str, Path(max_length=64, description="The key's id: the middle part of its text.")]


@router.get("/api/keys", summary="All API keys")
async def list_keys(caller: Admin) -> Answer[list[KeyFacts]]:
    """The API keys, the oldest first, revoked and expired ones as well; never their secrets."""
    keys = await caller.scheduler.api_keys()
    return Answer(data=[KeyFacts.of(key) for key in keys if caller.principal.scope.covers(key.scope)])


@router.post("/api/keys", status_code=201, summary="Make an API key")
async def create_key(caller: Admin, body: KeyCreation) -> Answer[NewKeyFacts]:
    """Make a key. Its text is in this answer and nowhere else. From the first key on, every request needs one."""
    if not caller.principal.scope.covers(make_scope(body.queues, body.prefixes)):
        raise Problem(403, "This key reaches some queues or names only; give the new one queues and prefixes of these.")
    made = await caller.scheduler.create_api_key(
        body.name,
        body.role,
        queues=body.queues,
        prefixes=body.prefixes,
        expires_at=body.expires_at,
        actor=caller.actor,
    )
    await caller.note("key.create", made.key.id, after=_noted(made.key))
    return Answer(data=NewKeyFacts(**KeyFacts.values(made.key), key=made.text))


@router.delete("/api/keys/{key_id}", summary="Revoke an API key")
async def revoke_key(caller: Admin, key_id: KeyId) -> Answer[KeyFacts]:
    """End a key, and the sessions that stand for it, at once. It stays in the list, marked."""
    before = await _reached(caller, key_id)
    revoked = await caller.scheduler.revoke_api_key(key_id)
    await caller.note("key.revoke", key_id, before=_noted(before), after=_noted(revoked))
    return Answer(data=KeyFacts.of(revoked))


@router.post("/api/keys/{key_id}/rotate", summary="Give an API key a new secret")
async def rotate_key(caller: Admin, key_id: KeyId, body: KeyRotation | None = None) -> Answer[NewKeyFacts]:
    """Give a key a new secret, which is in this answer and nowhere else. The old one counts for the grace time."""
    before = await _reached(caller, key_id)
    grace = timedelta(milliseconds=body.grace if body is not None else 0)
    rotated = await caller.scheduler.rotate_api_key(key_id, grace)
    await caller.note("key.rotate", key_id, before=_noted(before), after=_noted(rotated.key))
    return Answer(data=NewKeyFacts(**KeyFacts.values(rotated.key), key=rotated.text))


async def _reached(caller: Caller, key_id: str) -> Key:
    key = await caller.scheduler.get_api_key(key_id)
    if key is None or not caller.principal.scope.covers(key.scope):
        raise KeyNotFound(key_id)
    return key


def _noted(key: Key) -> dict[str, Any]:
    """A key as the audit log has it."""
    return KeyFacts.of(key).model_dump(mode="json", exclude_none=True, exclude={"id", "last_used_at"})
