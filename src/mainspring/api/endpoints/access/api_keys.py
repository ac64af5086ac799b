"""API keys over HTTP: admins create, list, rotate and revoke them.

A key that creates or rotates another key is shown its secret. Therefore that key has no wider scope and no later end
than the caller's. A key with a scope sees and changes only itself and the keys that were made with it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from mainspring.api.dependencies import Admin, Caller
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import signed
from mainspring.api.middleware.authentication import unknown
from mainspring.api.problems import Problem
from mainspring.api.wire.access import KeyCreation, KeyFacts, KeyRotation, NewKeyFacts
from mainspring.api.wire.base import Answer, ListAnswer
from mainspring.client.namespaces.api_keys import FIRST_KEY
from mainspring.errors import InvalidKey, KeyNotFound
from mainspring.model.access.api_keys import ADMIN, Key, key_id_from, make_scope
from mainspring.model.fields import Fields

router = APIRouter(tags=["access"])

AlsoMade = Annotated[bool, Query(description="Also revoke the keys that were created with it, directly or indirectly.")]
KeyId = Annotated[str, Path(max_length=64, description="The key's id: the middle part of its text.")]


@router.get("/api/keys", summary="List API keys")
async def list_keys(caller: Admin) -> ListAnswer[KeyFacts]:
    """List the API keys, the oldest first, including revoked and expired ones, without their secrets. A key with a
    scope sees itself and the keys that were created with it, directly or indirectly."""
    found = await _within_reach(caller)
    return ListAnswer.of(
        found, [KeyFacts.of(key) for key in await signed(caller, found)], everything=caller.scope.everything
    )


@router.post("/api/keys", status_code=201, summary="Create an API key", response_model=Answer[NewKeyFacts])
async def create_key(caller: Admin, body: KeyCreation, once: Once) -> Response:
    """Create an API key. Only this answer contains its text. With an `Idempotency-Key`, a repeated request creates no
    second key, and only the first answer shows the text. Once there is a key, every request needs one; therefore the
    first key must have the role admin and no scope. A new key cannot reach more, or expire later, than the key that
    creates it; without `expiresAt` it expires at the same time."""
    caller.check_current()

    async def make(seed: str) -> Made:
        await _check_first(caller, body)
        if not caller.principal.scope.covers(make_scope(body.queues, body.prefixes)):
            raise Problem(
                403, "This key reaches some queues or names only; give the new one queues and prefixes of these."
            )
        key, text = await _create(caller, body, key_id_from(seed))
        await _check_maker(caller, key)
        await caller.note("key.create", key.id, after=_noted(key))
        return _shown(key, text, 201)

    return await once.answer(caller, make)


@router.delete("/api/keys/{key_id}", summary="Revoke an API key")
async def revoke_key(caller: Admin, key_id: KeyId, made: AlsoMade = False) -> Answer[KeyFacts]:
    """Revoke a key at once; its sessions and streams end within a second in every process of the service. It stays in
    the list, marked as revoked. The keys that were created with it stay valid unless `made` is true. Set `made` if the
    key has leaked."""
    caller.check_current()
    before = await _reached(caller, key_id)
    revoked = await caller.scheduler.api_keys.revoke(key_id)
    await caller.note("key.revoke", key_id, before=_noted(before), after=_noted(revoked))
    for one in await caller.scheduler.api_keys.revoke_made_with(key_id) if made else ():
        await caller.note("key.revoke", one.id, after=_noted(one))
    (seen,) = await signed(caller, [revoked])
    return Answer(data=KeyFacts.of(seen))


@router.post("/api/keys/{key_id}/rotate", summary="Rotate an API key", response_model=Answer[NewKeyFacts])
async def rotate_key(caller: Admin, key_id: KeyId, once: Once, body: KeyRotation | None = None) -> Response:
    """Give a key a new secret. Only this answer contains it. The old secret stays valid for `grace`, but can neither
    change keys nor open sessions. A caller cannot rotate a key that expires later than its own. With an
    `Idempotency-Key`, a repeated request does not rotate again, and only the first answer shows the text."""
    caller.check_current()

    async def make(request_id: str) -> Made:
        before = await _reached(caller, key_id)
        _check_outlived(caller, before)
        grace = body.grace if body is not None else "0s"
        key, text = await _rotate(caller, before, grace, request_id)
        await caller.note("key.rotate", key_id, before=_noted(before), after=_noted(key))
        (seen,) = await signed(caller, [key])
        return _shown(seen, text, 200)

    return await once.answer(caller, make)


async def _check_first(caller: Caller, body: KeyCreation) -> None:
    """Refuse a first key that could not create every other key: one with a scope, or without the role admin."""
    fit = body.role in (None, ADMIN) and body.queues is None and body.prefixes is None
    if not fit and not await caller.backend.any_api_key():
        raise Problem(422, FIRST_KEY, field="queues" if body.role in (None, ADMIN) else "role")


async def _create(caller: Caller, body: KeyCreation, key_id: str) -> tuple[Key, str | None]:
    """Create the key with this id, or find it. Its text is returned only if this call has created it."""
    options = body.model_dump(include={"queues", "prefixes"}) | {"expires_at": _end(caller, body.expires_at)}
    try:
        made = await caller.scheduler.api_keys.create(
            body.name, body.role, **options, actor=caller.actor, key_id=key_id
        )
    except InvalidKey:  # an earlier try of this request has created it
        return await _reached(caller, key_id), None
    return made.key, made.text


async def _rotate(caller: Caller, before: Key, grace: str, request_id: str) -> tuple[Key, str | None]:
    try:
        rotated = await caller.scheduler.api_keys.rotate(before.id, grace, request_id=request_id)
    except InvalidKey:  # an earlier try of this request has rotated it
        return await _reached(caller, before.id), None
    return rotated.key, rotated.text


def _shown(key: Key, text: str | None, status: int) -> Made:
    """The answer with a key's text. The stored reply of the idempotency key does not have the text."""
    hidden = Answer(data=NewKeyFacts.hidden(key))
    return Made(hidden if text is None else Answer(data=NewKeyFacts.shown(key, text)), status, kept=hidden)


async def _check_maker(caller: Caller, key: Key) -> None:
    """Revoke a key whose maker has ended meanwhile: a request that revoked the maker's keys may have missed it."""
    lapse = await caller.service.authenticator.lapse(caller.principal)
    if lapse is not None and caller.principal.key is not None:
        await caller.scheduler.api_keys.revoke(key.id)
        raise unknown(lapse.value)


def _end(caller: Caller, asked: datetime | None) -> datetime | None:
    """When a new key of this caller ends: no later than the caller's own."""
    own = caller.principal.key
    last = None if own is None else own.expires_at
    if last is None or asked is None:
        return asked or last
    if asked > last:
        detail = "This key ends earlier than the one that is to be made with it; leave expiresAt out for the same end."
        raise Problem(403, detail, field="expiresAt")
    return asked


def _check_outlived(caller: Caller, key: Key) -> None:
    """Refuse to show a caller the secret of a key that ends later than its own."""
    own = caller.principal.key
    if own is None or own.id == key.id or own.expires_at is None:
        return
    if key.expires_at is None or key.expires_at > own.expires_at:
        raise Problem(403, "This key ends earlier than the one that is to be rotated; use one that ends no earlier.")


async def _within_reach(caller: Caller) -> list[Key]:
    """The keys that a caller sees and may change."""
    principal = caller.principal
    if principal.scope.everything or principal.key is None:
        return await caller.scheduler.api_keys.all()
    keys = [principal.key, *await caller.scheduler.api_keys.made_with(principal.key.id)]
    return [key for key in keys if principal.scope.covers(key.scope)]


async def _reached(caller: Caller, key_id: str) -> Key:
    key = await caller.scheduler.api_keys.get(key_id)
    if key is None:
        raise KeyNotFound(key_id)
    if not caller.principal.scope.everything and key_id not in [one.id for one in await _within_reach(caller)]:
        raise KeyNotFound(key_id)
    return key


def _noted(key: Key) -> Fields:
    """The audit entry of a key."""
    return KeyFacts.of(key).model_dump(mode="json", exclude_none=True, exclude={"id", "last_used_at"})
