"""Checks, before a webhook is stored, whether its caller may use the secrets that it refers to. The worker checks again
before it sends anything (`model/privacy/secrets.py`).

A caller with a scope may use only the secrets whose queues and prefixes include the job. A secret without queues and
prefixes is for callers without a scope. A secret that a caller with a scope may not use does not exist for it: the
refusal is the same as for a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.api.dependencies import Caller
from mainspring.api.problems import Problem
from mainspring.errors import SecretNotFound
from mainspring.jobtypes.http.secret_references import secret_names, split_secret_path
from mainspring.jobtypes.http.urls import target_of
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.model.privacy.origins import is_among, plain_origin
from mainspring.model.privacy.secrets import Secret

Known = dict[str, Secret | None]
"""Secrets that were looked up, by name; None for a missing one."""


async def check_secrets(
    caller: Caller, name: str, queue: str, data: Mapping[str, Any], known: Known | None = None
) -> None:
    """Refuse a webhook that refers to secrets which the caller may not use for it. The secrets that are looked up are
    added to `known`, for the next webhook."""
    request = data.get("request") if name == HTTP else None
    if not isinstance(request, Mapping):
        return
    signing = _texts(request.get("sign_with"))
    found = {} if known is None else known
    referred = [one for text in _texts(request.get("headers")) for one in secret_names(text)]
    path = split_secret_path(str(request.get("url")))[1]
    for secret_name in sorted({*referred, *signing, *(() if path is None else (path,))}):
        if secret_name not in found:
            found[secret_name] = await _look_up(caller, secret_name)
        field = "endpoint" if secret_name == path else "signWith" if secret_name in signing else "headers"
        secret = _usable(caller, found[secret_name], secret_name, queue, field)
        origin = plain_origin(target_of(str(request.get("url"))))
        if not is_among(origin, secret.origins):
            text = f"The secret {secret_name!r} may not be sent to {origin}: that is none of its origins."
            raise Problem(403, text, field=field)


def _texts(values: Any) -> list[str]:
    """The texts in a list, or among the values of a mapping: another program may have stored values of other types."""
    listed = values.values() if isinstance(values, Mapping) else values if isinstance(values, list | tuple) else ()
    return [one for one in listed if isinstance(one, str)]


def _usable(caller: Caller, secret: Secret | None, name: str, queue: str, field: str) -> Secret:
    if not caller.principal.scope.everything:
        if secret is None or not secret.origins or secret.scope.everything or not secret.scope.allows(queue, HTTP):
            text = f"There is no secret {name!r} that webhooks of this key may use in this queue."
            raise Problem(403, text, field=field)
        return secret
    if secret is None:
        raise Problem(422, f"There is no secret {name!r}; store it first, with PUT /api/secrets/{name}.", field=field)
    if not secret.origins:
        text = f"The secret {name!r} does not say where it may be sent; store it again, with origins."
        raise Problem(422, text, field=field)
    if not secret.scope.allows(queue, HTTP):
        raise Problem(403, f"The secret {name!r} is for other queues or names; no job of this queue may use it.",
                      field=field)  # fmt: skip
    return secret


async def _look_up(caller: Caller, name: str) -> Secret | None:
    try:
        return await caller.scheduler.secrets.get(name)
    except SecretNotFound:
        return None
