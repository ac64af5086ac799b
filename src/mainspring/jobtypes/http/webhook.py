"""Webhook jobs: one attempt is one call of `send`, on the session that the worker shares among all of them.

`send` returns the response if its status counts as success. Otherwise it raises: `WebhookFailed` if another attempt may
help, `WebhookRejected` if none will. Both carry the response, if there was one. No message, and no stored part of a
response, holds a secret.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Protocol

from aiohttp import ClientError, ClientPayloadError, ClientResponse, ClientResponseError, ClientSession, ClientTimeout
from yarl import URL

from mainspring.clock import monotonic
from mainspring.errors import ConfigurationError
from mainspring.jobtypes.http.bodies import BYTES_TYPE, build_body
from mainspring.jobtypes.http.failures import WebhookError, WebhookFailed, WebhookRejected
from mainspring.jobtypes.http.headers import fill_headers, is_plain
from mainspring.jobtypes.http.request import WebhookRequest, parse_request
from mainspring.jobtypes.http.response import WebhookResponse, keep_body, keep_headers, read_body
from mainspring.jobtypes.http.secret_references import Scrubber, credentials, split_secret_path
from mainspring.jobtypes.http.signing import PREFIX, signature_headers
from mainspring.jobtypes.http.statuses import ALL, NETWORK, is_among, retry_after
from mainspring.jobtypes.http.templates import Facts
from mainspring.jobtypes.http.urls import build_url, name_target, target_of
from mainspring.model.privacy.credentials import mask_urls
from mainspring.model.privacy.secrets import Lent, SecretRefused

__all__ = [
    "Facts",
    "WebhookError",
    "WebhookFailed",
    "WebhookRejected",
    "WebhookRequest",
    "WebhookResponse",
    "parse_request",
    "send",
    "target_of",
]

TOKEN_HEADER = "Mainspring-Fencing-Token"
_CONNECT_TIMEOUT = 10.0
_REDIRECTS = (301, 302, 303, 307, 308)
_TRAVELLING = ("content-type", "accept", "accept-encoding", "accept-language", "user-agent")
"""Headers that may follow a redirect to another server; any other may be a credential."""
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class SecretSource(Protocol):
    """Lends secrets to one attempt at one job."""

    async def lend(self, name: str, origin: str) -> Lent:
        """A secret for a request to this origin. Raises SecretRefused if the job may not send it there."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One request as it goes out: filled in and signed; with the scrubber for its response, and the secrets lent."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None
    scrubber: Scrubber
    secrets: Mapping[str, Lent]


@dataclass(frozen=True, slots=True)
class _Answer:
    """The response: the part that is kept, and the target of a redirect."""

    kept: WebhookResponse
    location: str | None
    wait: str | None


async def send(
    session: ClientSession,
    request: WebhookRequest,
    facts: Facts,
    source: SecretSource,
    hidden: Sequence[str] = (),
) -> WebhookResponse:
    """Make one attempt on a session from `guard.open_session`. `hidden` are redacted texts of the data: like secrets,
    they are removed from the response."""
    started = monotonic()
    url = _url_of(request, facts, hidden)
    secrets = await _borrow(request, source, name_target(url))
    known = [value for lent in secrets.values() for value in lent.values]
    known += [*(value.removeprefix(PREFIX) for value in known), *hidden]
    scrubber = Scrubber(known)
    try:
        headers = fill_headers(
            request.headers, _filling(request, facts), {name: lent.values[0] for name, lent in secrets.items()}
        )
        url = _with_secret_path(url, request, facts, secrets)
        scrubber = Scrubber([*known, *credentials(headers, str(url))])
        call = _Call(request.method, url, *_prepare(request, facts, secrets, headers), scrubber, secrets)
        async with asyncio.timeout(request.timeout):
            answer = await _follow(session, request, call, started)
    except ConfigurationError as error:  # a template, a secret or a target that cannot be used
        raise WebhookRejected(scrubber.clean_text(str(error))) from None
    except (ClientError, OSError) as error:
        raise _broken(request, error, scrubber) from None
    return _judge(request, answer, facts, started)


def _filling(request: WebhookRequest, facts: Facts) -> Facts | None:
    """The values that fill templates; None if templates are switched off."""
    return facts if request.templates else None


def _url_of(request: WebhookRequest, facts: Facts, hidden: Sequence[str]) -> URL:
    try:
        return build_url(split_secret_path(request.url)[0], request.query, _filling(request, facts))
    except ConfigurationError as error:
        raise WebhookRejected(Scrubber(hidden).clean_text(str(error))) from None


def _with_secret_path(url: URL, request: WebhookRequest, facts: Facts, secrets: Mapping[str, Lent]) -> URL:
    """The URL with the secret that is its path, if it has one. Its server is the one that the secret was lent for."""
    server, name = split_secret_path(request.url)
    if name is None:
        return url
    path = secrets[name].values[0].removeprefix(server).lstrip("/")
    return build_url(f"{server}{path}", request.query, _filling(request, facts))


async def _borrow(request: WebhookRequest, source: SecretSource, origin: str) -> dict[str, Lent]:
    """All secrets that the request refers to, each if the job may send it to this origin."""
    secrets: dict[str, Lent] = {}
    for name in sorted(request.secret_names()):
        try:
            lent = secrets[name] = await source.lend(name, origin)
        except SecretRefused as error:
            raise WebhookRejected(str(error)) from None
        if not all(value and is_plain(value) for value in lent.values):
            raise WebhookRejected(f"The secret {name!r} is empty, or has a line break or something else in it that is "
                                  "not plain ASCII text; store it anew.")  # fmt: skip
    return secrets


def _prepare(
    request: WebhookRequest, facts: Facts, secrets: Mapping[str, Lent], given: dict[str, str]
) -> tuple[dict[str, str], bytes | None]:
    """The headers and the body as they go out, signed."""
    headers = {"User-Agent": "Mainspring", "Accept": "*/*", "Accept-Encoding": "identity"}
    body: bytes | None = None
    if request.body_base64 is not None:
        body, headers["Content-Type"] = request.body_bytes(), BYTES_TYPE
    elif request.body is not None:
        body, headers["Content-Type"] = build_body(request.body, request.content_type, _filling(request, facts))
    if facts.traceparent and _TRACEPARENT.fullmatch(facts.traceparent):
        headers["traceparent"] = facts.traceparent
    headers = {**_without(headers, given), **given, TOKEN_HEADER: str(facts.token)}
    signing = [value for name in request.sign_with for value in secrets[name].values]
    headers.update(signature_headers(signing, facts.job_id, facts.now, body or b""))
    return headers, body


def _without(headers: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    lower = {name.lower() for name in names}
    return {name: value for name, value in headers.items() if name.lower() not in lower}


async def _follow(session: ClientSession, request: WebhookRequest, call: _Call, started: float) -> _Answer:
    hops = 0
    while True:
        answer = await _exchange(session, request, call, started)
        if answer.location is None or not request.redirects:
            return answer
        if hops >= request.redirects:
            raise _astray(call, answer, f"again, after {hops} redirects; no more are followed.")
        call = _redirected(call, answer)
        hops += 1


def _astray(call: _Call, answer: _Answer, how: str) -> WebhookRejected:
    return WebhookRejected(call.scrubber.clean_text(f"{name_target(call.url)} redirects {how}"), answer.kept)


async def _exchange(session: ClientSession, request: WebhookRequest, call: _Call, started: float) -> _Answer:
    async with session.request(
        call.method,
        call.url,
        headers=call.headers,
        data=call.body,
        allow_redirects=False,
        skip_auto_headers=("User-Agent", "Content-Type"),
        timeout=ClientTimeout(total=None, sock_connect=min(_CONNECT_TIMEOUT, request.timeout)),
    ) as response:
        data = await read_body(response, request.max_response + call.scrubber.reach + 1)
        kept = _keep(response, data, request.max_response, call, started)
        location = response.headers.get("Location") if response.status in _REDIRECTS else None
        return _Answer(kept, location, response.headers.get("Retry-After"))


def _keep(response: ClientResponse, data: bytes, limit: int, call: _Call, started: float) -> WebhookResponse:
    text, note = keep_body(data, response.headers, limit, call.scrubber)
    return WebhookResponse(
        response.status,
        keep_headers(response.headers.items(), call.scrubber),
        text,
        note,
        _milliseconds(started),
        mask_urls(call.scrubber.clean_text(str(call.url))),
    )


def _redirected(call: _Call, answer: _Answer) -> _Call:
    """The next request. To another server only harmless headers are sent, and only if the secrets of the request may be
    sent there. A redirect from https to http is refused."""
    try:
        url = build_url(str(call.url.join(URL(answer.location or "")).with_fragment(None)), {}, None)
    except ValueError as error:
        why = f": {error}" if isinstance(error, ConfigurationError) else "."  # other errors may quote the URL
        raise _astray(call, answer, f"to where no request can go{why}") from None
    if call.url.scheme == "https" and url.scheme != "https":
        raise _astray(call, answer, "from https to http, which is not followed.")
    headers, target = call.headers, name_target(url)
    if target != name_target(call.url):
        refused = next((name for name, lent in call.secrets.items() if not lent.may_go_to(target)), None)
        if refused is not None:
            raise _astray(call, answer, f"to {target}, which is none of the origins of the secret {refused!r}.")
        headers = {name: value for name, value in headers.items() if name.lower() in _TRAVELLING}
    status = answer.kept.status
    if status == 303 or (status in (301, 302) and call.method == "POST"):  # as browsers do
        method = "HEAD" if call.method == "HEAD" else "GET"
        return replace(call, method=method, url=url, headers=_without(headers, ["Content-Type"]), body=None)
    return replace(call, url=url, headers=headers)


def _judge(request: WebhookRequest, answer: _Answer, facts: Facts, started: float) -> WebhookResponse:
    kept = answer.kept
    if is_among(kept.status, request.success):
        return kept
    said = f"{target_of(request.url)} answered {kept.status}{_phrase(kept.status)}."
    if is_among(kept.status, request.retry_on):
        now = facts.now + timedelta(seconds=monotonic() - started)
        raise WebhookFailed(said, kept, retry_after(answer.wait, now))
    hint = (
        " Redirects are not followed; set redirects to allow some." if answer.location and not request.redirects else ""
    )
    raise WebhookRejected(said + hint, kept)


def _broken(request: WebhookRequest, error: Exception, scrubber: Scrubber) -> WebhookError:
    if isinstance(error, TimeoutError):
        said = f"{target_of(request.url)} did not answer in full within {request.timeout:g} s."
    else:
        said = f"The request to {target_of(request.url)} broke: {scrubber.clean_text(_reason(error))}."
    again = NETWORK in request.retry_on or ALL in request.retry_on
    broken = (WebhookFailed if again else WebhookRejected)(said)
    broken.outage = True
    return broken


def _reason(error: Exception) -> str:
    """The text of an error, without the URL or the bytes of the response that some messages repeat."""
    if isinstance(error, ClientResponseError):
        return "the response is not valid HTTP"
    if isinstance(error, ClientPayloadError):
        return "the response's body ended early, or is not valid HTTP"
    cause = getattr(error, "os_error", error)
    return (getattr(cause, "strerror", None) or str(cause) or type(error).__name__)[:200].rstrip(".")


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _milliseconds(started: float) -> int:
    return round((monotonic() - started) * 1000)
