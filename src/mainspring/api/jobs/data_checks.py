"""Checks the data of a job before it is stored: a webhook in full, its target by the guard, a mail by its own rules,
other data against the JSON Schema that a live worker has described for the handler.

A service seldom has the handlers itself. It refuses data that the handler would surely refuse, with the name of the
field; where no live worker has described the handler, or old and new workers run, nothing is checked.

A webhook may refer to secrets. A caller with a scope may use only the secrets whose queues and prefixes include the
job. A secret without queues and prefixes is for callers without a scope. A secret that a caller with a scope may not
use does not exist for it: the refusal is the same as for a missing one. The worker checks again before it sends
anything (`model/privacy/secrets.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from mainspring.api.dependencies import Caller
from mainspring.api.problems import Problem, on_the_wire
from mainspring.api.settings import ServiceSettings
from mainspring.api.wire.base import span_seconds
from mainspring.api.wire.job_requests import Change, Creation, Request, Work
from mainspring.client.outgoing.builtin_jobs import smtp_settings, webhook_data
from mainspring.errors import ConfigurationError, InvalidJob, SecretNotFound
from mainspring.jobtypes.http.addresses import Allow
from mainspring.jobtypes.http.guard import SsrfGuard
from mainspring.jobtypes.http.request import WebhookRequest, explain, parse_request
from mainspring.jobtypes.http.secret_references import secret_names, split_secret_path
from mainspring.jobtypes.http.statuses import read_statuses
from mainspring.jobtypes.http.urls import target_of
from mainspring.jobtypes.mail import EmailRequest, why_refused
from mainspring.model.fields import Fields
from mainspring.model.jobs.reserved_names import EMAIL, HTTP, QUEUES
from mainspring.model.privacy.origins import is_among, plain_origin
from mainspring.model.privacy.secrets import Secret

_SNAKE = frozenset(name for name in Creation.model_fields if "_" in name)
# Words by which an error of the library names a field; other fields have names that are too common.
_NAMED = frozenset({*map(to_camel, _SNAKE), "queue", "priority", "tags", "data", "delay", "jitter", "timezone"})
_OTHER_NAMES = {"schedule_id": "id"}
# The names of a webhook's own fields on the wire.
_WEBHOOK_NAMES = {"url": "endpoint"}
Known = dict[str, Secret | None]
"""Secrets that were looked up, by name; None for a missing one."""


@contextmanager
def refusing(where: str | None = None) -> Iterator[None]:
    """Turn an error of the library into a problem with the API's names of fields: `run_at` is called runAt here."""
    try:
        yield
    except ConfigurationError as error:
        text, first = on_the_wire(str(error), _OTHER_NAMES)
        named = next((word for word in re.findall(r"\w+", text) if word in _NAMED), None)
        raise Problem(422, text, field=where or named or first) from None


def data_of(name: str, change: Change, settings: ServiceSettings, traceparent: str | None = None) -> Fields:
    """The data of the job, checked."""
    data = change.data
    if name == HTTP:
        return checked_webhook({**usual_request(settings), **request_fields(change)}, data, settings, traceparent)
    if name == EMAIL:
        return checked_mail(data, settings)
    return data or {}


def usual_request(settings: ServiceSettings) -> Fields:
    """The defaults of every webhook, from the service's settings."""
    return {"retry_on": list(read_statuses(settings.retry_on))} if settings.retry_on.strip() else {}


def request_fields(change: Work) -> Fields:
    """The given fields of a webhook's request, under the names of `WebhookRequest`."""
    given = {key: getattr(change, key) for key in Request.model_fields if key in change.model_fields_set}
    if given.get("timeout") is not None:
        given["timeout"] = span_seconds(given["timeout"])
    if "endpoint" in given:
        given["url"] = given.pop("endpoint")
    return {key: value for key, value in given.items() if value is not None or key == "body"}


def checked_webhook(
    fields: Mapping[str, Any],
    data: Mapping[str, Any] | None,
    settings: ServiceSettings,
    traceparent: str | None = None,
) -> Fields:
    """The data of a webhook's job. Its request is checked in full, and its target as far as it can be known now."""
    try:
        request = parse_request(fields, data or {})
    except InvalidJob as error:
        raise _bad_webhook(error, fields, data or {}) from None
    with refusing("endpoint"):
        guard(settings.http_allow).check_url(request.url)
    return webhook_data(request, data, target_of(request.url), traceparent)


def _bad_webhook(error: InvalidJob, fields: Mapping[str, Any], data: Mapping[str, Any]) -> Problem:
    text = str(error).removeprefix("The webhook is not valid: ")
    place = re.match(r"(\w+)(?=[.:])", text)
    if place is not None and place[1] in WebhookRequest.model_fields:
        where = _WEBHOOK_NAMES.get(place[1], to_camel(place[1]))
        return Problem(422, where + text[place.end() :], field=where)
    where = _culprit(fields, data)
    return Problem(422, f"{where}: {text}", field=where)


def _culprit(fields: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """The field without which the request would be valid."""
    for name in fields:
        if name != "url":
            try:
                parse_request({key: value for key, value in fields.items() if key != name}, data)
            except InvalidJob:
                continue
            return to_camel(name)
    return "endpoint"


@lru_cache(maxsize=8)
def guard(allow: str) -> SsrfGuard:
    """The SSRF guard for a list of allowed targets."""
    return SsrfGuard(Allow.parse(allow))


def checked_mail(data: Mapping[str, Any] | None, settings: ServiceSettings) -> Fields:
    """The data of a mail's job, as given. If the service knows the SMTP server, it refuses a sender that the worker
    would refuse."""
    try:
        request = EmailRequest.model_validate(dict(data or {}))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(["data", *(str(step) for step in first["loc"][:1])])
        raise Problem(422, f"data: {'; '.join(explain(error))}", field=where) from None
    smtp = smtp_settings(settings)
    refused = None if smtp is None else why_refused(smtp, request)
    if refused is not None:
        raise Problem(403, refused, field="data.from")
    return dict(data or {})


async def check_data(caller: Caller, name: str, data: Mapping[str, Any], version: int | None = None) -> None:
    """Refuse data that does not fit the handler of a name. Webhooks and mails have checks of their own."""
    if name in QUEUES:
        return
    misfit = await caller.backend.find_misfit(name, data, version)
    if misfit is not None:
        raise Problem(422, str(misfit), field=misfit.field)


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
