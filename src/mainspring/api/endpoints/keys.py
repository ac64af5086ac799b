"""API keys over HTTP: made, listed, rotated and revoked by admins. Who has a scope gives away no more than he has."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from mainspring.api.idempotency import Made, Once
from mainspring.api.problems import Problem
from mainspring.api.service import Admin, Caller
from mainspring.api.wire.access import KeyCreation, KeyFacts, KeyRotation, NewKeyFacts
from mainspring.api.wire.base import Answer
from mainspring.errors import InvalidKey, KeyNotFound
from mainspring.model.access import Key, key_id_from, make_scope

router = APIRouter(tags=["access"])

KeyId = Annotated[str, Path(max_length=64, description="The key's id: the middle part of its text.")]


@router.get("/api/keys", summary="All API keys")
async def list_keys(caller: Admin) -> Answer[list[KeyFacts]]:
    """The API keys, the oldest first, revoked and expired ones as well; never their secrets."""
    keys = await caller.scheduler.api_keys()
    return Answer(data=[KeyFacts.of(key) for key in keys if caller.principal.scope.covers(key.scope)])


@router.post("/api/keys", status_code=201, summary="Make an API key", response_model=Answer[NewKeyFacts])
async def create_key(caller: Admin, body: KeyCreation, once: Once) -> Response:
    """Make a key. Its text is in this answer and nowhere else: with an `Idempotency-Key`, the same request makes one
    key however often it comes, and only the first answer shows its text. From the first key on, every request needs
    one."""

    async def make(seed: str) -> Made:
        if not caller.principal.scope.covers(make_scope(body.queues, body.prefixes)):
            raise Problem(
                403, "This key reaches some queues or names only; give the new one queues and prefixes of these."
            )
        key, text = await _create(caller, body, key_id_from(seed))
        await caller.note("key.create", key.id, after=_noted(key))
        return _shown(key, text, 201)

    return await once.answer(caller, make)


@router.delete("/api/keys/{key_id}", summary="Revoke an API key")
async def revoke_key(caller: Admin, key_id: KeyId) -> Answer[KeyFacts]:
    """End a key, and the sessions that stand for it, at once. It stays in the list, marked."""
    before = await _reached(caller, key_id)
    revoked = await caller.scheduler.revoke_api_key(key_id)
    await caller.note("key.revoke", key_id, before=_noted(before), after=_noted(revoked))
    return Answer(data=KeyFacts.of(revoked))


@router.post("/api/keys/{key_id}/rotate", summary="Give an API key a new secret", response_model=Answer[NewKeyFacts])
async def rotate_key(caller: Admin, key_id: KeyId, once: Once, body: KeyRotation | None = None) -> Response:
    """Give a key a new secret, which is in this answer and nowhere else. The old one counts for the grace time. With an
    `Idempotency-Key`, the same request rotates once however often it comes, and only the first answer shows the text.
    """

    async def make(request_id: str) -> Made:
        before = await _reached(caller, key_id)
        grace = timedelta(milliseconds=body.grace if body is not None else 0)
        key, text = await _rotate(caller, before, grace, request_id)
        await caller.note("key.rotate", key_id, before=_noted(before), after=_noted(key))
        return _shown(key, text, 200)

    return await once.answer(caller, make)


async def _create(caller: Caller, body: KeyCreation, key_id: str) -> tuple[Key, str | None]:
    """The key with this id, and its text if it was made just now."""
    options = body.model_dump(include={"queues", "prefixes", "expires_at"})
    try:
        made = await caller.scheduler.create_api_key(body.name, body.role, **options, actor=caller.actor, key_id=key_id)
    except InvalidKey:  # an earlier try has made it
        return await _reached(caller, key_id), None
    return made.key, made.text


async def _rotate(caller: Caller, before: Key, grace: timedelta, request_id: str) -> tuple[Key, str | None]:
    try:
        rotated = await caller.scheduler.rotate_api_key(before.id, grace, request_id=request_id)
    except InvalidKey:  # an earlier try has done it
        return await _reached(caller, before.id), None
    return rotated.key, rotated.text


def _shown(key: Key, text: str | None, status: int) -> Made:
    """The answer with a key's text, which is kept without it."""
    hidden = Answer(data=NewKeyFacts.hidden(key))
    return Made(hidden if text is None else Answer(data=NewKeyFacts.shown(key, text)), status, kept=hidden)


async def _reached(caller: Caller, key_id: str) -> Key:
    key = await caller.scheduler.get_api_key(key_id)
    if key is None or not caller.principal.scope.covers(key.scope):
        raise KeyNotFound(key_id)
    return key


def _noted(key: Key) -> dict[str, Any]:
    """A key as the audit log has it."""
    return KeyFacts.of(key).model_dump(mode="json", exclude_none=True, exclude={"id", "last_used_at"})
