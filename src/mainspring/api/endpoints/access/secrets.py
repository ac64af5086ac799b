"""Secrets: names and times can be read, values are write-only."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from mainspring.api.dependencies import Admin, Caller
from mainspring.api.jobs.data_checks import refusing
from mainspring.api.wire.base import Answer, ListAnswer
from mainspring.api.wire.secrets import SecretIn, SecretOut, SecretPut
from mainspring.errors import SecretNotFound
from mainspring.jobtypes.http.signing import new_secret
from mainspring.model.fields import Fields
from mainspring.model.privacy.secrets import Secret

router = APIRouter(prefix="/api/secrets", tags=["secrets"])
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["billing-token"])]


@router.get("", summary="List secrets")
async def list_secrets(caller: Admin) -> ListAnswer[SecretOut]:
    """List all secrets: their names, when they were stored, and the id of the key that encrypts them. Values are never
    shown."""
    caller.check_everything()
    found = await caller.scheduler.secrets.all()
    return ListAnswer.of(found, [SecretOut.of(secret) for secret in found])


@router.put("/{name}", summary="Store a secret")
async def put_secret(name: Name, body: SecretIn, caller: Admin) -> Answer[SecretPut]:
    """Store a secret, or a new value for it. Webhooks refer to it in headers, as in `Authorization: Bearer
    secret://NAME`, and in `signWith`. It is sent only to its `origins`, and only by jobs of its `queues` and
    `prefixes`. The service needs an encryption key: `mainspring generate-key` makes one for MAINSPRING_KEYS."""
    caller.check_everything()
    made = new_secret() if body.value is None else None
    value = made if body.value is None else body.value.get_secret_value()
    before = await _known(caller, name)
    with refusing():
        after = await caller.scheduler.secrets.put(
            name,
            value or "",
            origins=body.origins,
            queues=body.queues,
            prefixes=body.prefixes,
            keep_old=body.keep_old,
            actor=caller.actor,
        )
    await caller.note("secret.put", name, before=_told(before), after=_told(after))
    return Answer(data=SecretPut(**SecretOut.of(after).model_dump(by_alias=False), value=made))


@router.delete("/{name}", summary="Delete a secret")
async def delete_secret(name: Name, caller: Admin) -> Answer[SecretOut]:
    """Delete a secret with all its values. Webhooks that refer to it fail from then on; their error says so."""
    caller.check_everything()
    deleted = await caller.scheduler.secrets.delete(name)
    await caller.note("secret.delete", name, before=_told(deleted))
    return Answer(data=SecretOut.of(deleted))


async def _known(caller: Caller, name: str) -> Secret | None:
    try:
        return await caller.scheduler.secrets.get(name)
    except SecretNotFound:
        return None


def _told(secret: Secret | None) -> Fields | None:
    """The audit entry of a secret."""
    if secret is None:
        return None
    return {"key_id": secret.key_id, "version": secret.version, "origins": secret.origins, **secret.scope.to_document()}
