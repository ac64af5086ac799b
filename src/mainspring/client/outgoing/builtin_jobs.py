"""The handlers of the jobs that Mainspring runs itself: webhooks (`mainspring:http`) and mail (`mainspring:email`).

`mainspring up` registers them on its scheduler; your own worker calls `scheduler.outgoing()`. The target's response
decides the outcome of an attempt: failed for good, or retried by the job's policy, but not before the time that the
target asks for. The response is stored either way: as the result, or as the details of the attempt's error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import SecretStr, ValidationError

from mainspring.client.outgoing.options import missing_extra
from mainspring.client.outgoing.settings import outgoing_settings
from mainspring.client.scheduler import Scheduler, core_of
from mainspring.client.service_backend import ServiceBackend
from mainspring.engine.run.context import JobContext
from mainspring.errors import Fail, InvalidJob, RetryAfter
from mainspring.jobtypes.http.addresses import Allow
from mainspring.jobtypes.http.failures import WebhookError, WebhookFailed, WebhookRejected
from mainspring.jobtypes.http.request import WebhookRequest, explain, parse_request
from mainspring.jobtypes.http.response import WebhookResponse
from mainspring.jobtypes.http.templates import Facts
from mainspring.jobtypes.mail import EmailRequest, MailFacts, MailRejected, SmtpSettings, send_mail
from mainspring.model.fields import Fields
from mainspring.model.jobs.reserved_names import EMAIL, HTTP, QUEUES
from mainspring.model.limits.breaker import Breaker
from mainspring.model.limits.limits import Limit, Rate
from mainspring.model.privacy.secrets import Lent, SecretUse

if TYPE_CHECKING:
    from aiohttp import ClientSession

# The bytes of a result beside its headers and body, and of each header beside its texts.
_FRAME, _PER_HEADER = 1024, 16
_DETAIL_BODY = 4096
TRACEPARENT = "traceparent"
"""The header, and the key of a trace context, by which a request continues the trace of its attempt."""
_TARGET = "target"
"""The field of a webhook job's data that names its target: each target has its own limits and breaker in each queue, so
that no tenant takes the slots of another or opens its breaker."""


class BuiltinSettings(Protocol):
    """The settings of the handlers; the settings of the service have them."""

    @property
    def http_allow(self) -> str: ...

    @property
    def target_concurrency(self) -> int: ...

    @property
    def target_rate(self) -> str: ...

    @property
    def target_breaker(self) -> bool: ...

    @property
    def smtp_url(self) -> SecretStr | None: ...

    @property
    def smtp_from(self) -> str | None: ...

    @property
    def smtp_senders(self) -> str: ...


def add_builtin_handlers(scheduler: Scheduler, settings: BuiltinSettings | None = None) -> None:
    """Register the handlers for webhooks and, if an SMTP server is set, for mail: without one, mail waits. Without
    settings, those of the environment are used."""
    settings = outgoing_settings() if settings is None else settings
    webhooks = Webhooks(scheduler, Allow.parse(settings.http_allow))
    scheduler.job(
        HTTP,
        queue=QUEUES[HTTP],
        concurrency=Limit(settings.target_concurrency, _TARGET, each_queue=True)
        if settings.target_concurrency
        else None,
        rate=Rate(settings.target_rate, key=_TARGET, each_queue=True) if settings.target_rate else None,
        breaker=Breaker(key=_TARGET, each_queue=True) if settings.target_breaker else None,
    )(webhooks.call)
    scheduler.on_start(webhooks.prepare)
    scheduler.on_stop(webhooks.close)
    smtp = smtp_settings(settings)
    if smtp is not None:
        scheduler.job(EMAIL, queue=QUEUES[EMAIL])(Mails(scheduler, smtp).send)


def smtp_settings(settings: BuiltinSettings) -> SmtpSettings | None:
    """The SMTP server that mail is sent through, or None."""
    if settings.smtp_url is None:
        return None
    return SmtpSettings.parse(settings.smtp_url.get_secret_value(), settings.smtp_from, settings.smtp_senders)


class Webhooks:
    """Runs webhook jobs, all on one session whose connections the SSRF guard checks."""

    def __init__(self, scheduler: Scheduler, allow: Allow) -> None:
        self._scheduler = scheduler
        self._backend = ServiceBackend(scheduler)
        self._allow = allow
        self._session: ClientSession | None = None

    async def call(
        self,
        ctx: JobContext,
        request: Fields,
        data: Fields | None = None,
        target: str = "",
        traceparent: str | None = None,
    ) -> Fields:
        """Make one attempt. `target` is unused here: limits and breakers find the jobs of a target by it."""
        from mainspring.jobtypes.http.webhook import send

        room = self._scheduler.settings.max_result
        try:
            asked = _bounded(parse_request(request), room)
        except InvalidJob as error:  # another program wrote the job to the database unchecked
            raise Fail(str(error), outage=None) from None
        facts = Facts(
            job_id=ctx.id,
            attempt=ctx.attempt,
            scheduled_at=ctx.scheduled_for or ctx.run_at,
            data=data or {},
            token=ctx.token,
            now=self._scheduler.now(),
            traceparent=core_of(self._scheduler).observers.carrier_of(TRACEPARENT) or traceparent,
        )
        hidden = self._scheduler.privacy.hidden_texts(HTTP, {"request": request, "data": facts.data})
        try:
            response = await send(self._open(), asked, facts, _SecretsOf(self._backend, ctx), hidden)
        except WebhookError as error:
            raise _ending(error) from None
        return fitted(response, room)

    async def prepare(self) -> None:
        """Import the HTTP client when a worker starts, so that the first webhook does not wait for it. A process that
        only schedules webhooks, such as the service, does without."""
        try:
            from mainspring.jobtypes.http import connector, webhook  # noqa: F401
        except ModuleNotFoundError as error:
            raise missing_extra(error) from None

    def _open(self) -> ClientSession:
        from mainspring.jobtypes.http.connector import open_session

        if self._session is None or self._session.closed:
            self._session = open_session(self._allow)
        return self._session

    async def close(self) -> None:
        """Close the session; the next call opens another one."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _SecretsOf:
    """The secrets that a job may use, by its stored queue and name."""

    def __init__(self, backend: ServiceBackend, ctx: JobContext) -> None:
        self._backend = backend
        self._ctx = ctx

    async def lend(self, name: str, origin: str) -> Lent:
        ctx = self._ctx
        return await self._backend.lend_secret(name, SecretUse(ctx.id, ctx.name, ctx.queue, origin))


class Mails:
    """Runs email jobs."""

    def __init__(self, scheduler: Scheduler, smtp: SmtpSettings) -> None:
        self._scheduler = scheduler
        self._smtp = smtp

    async def send(self, ctx: JobContext, **mail: Any) -> Fields:
        """Make one attempt. All attempts have the same Message-ID, by which a mailbox recognises a repeated mail."""
        facts = MailFacts(ctx.id, self._scheduler.now(), ctx.idempotency_key)
        try:
            return (await send_mail(self._smtp, EmailRequest.model_validate(mail), facts)).to_document()
        except MailRejected as error:
            raise Fail(str(error), outage=False) from None


def _bounded(request: WebhookRequest, room: int) -> WebhookRequest:
    """The request with `max_response` bounded by the size of a stored result."""
    return request.model_copy(update={"max_response": min(request.max_response, room)})


def _ending(error: WebhookError) -> Exception:
    """The exception with which an attempt ends after a webhook that did not succeed."""
    if isinstance(error, WebhookRejected):
        return Fail(str(error), outage=error.outage, details=_details(error.response))
    if isinstance(error, WebhookFailed) and error.retry_after:
        return RetryAfter(error.retry_after, str(error), details=_details(error.response))
    if error.response is not None:
        error.details = _details(error.response)
    return error


def _details(response: WebhookResponse | None) -> Fields | None:
    """The part of a failed attempt's response that is stored."""
    if response is None:
        return None
    body = response.body
    if body is not None and len(body) > _DETAIL_BODY:
        return _answer(replace(response, body=body[:_DETAIL_BODY], body_note=f"cut after {_DETAIL_BODY:,} characters"))
    return _answer(response)


def _answer(response: WebhookResponse) -> Fields:
    kept = {"status": response.status, "body": response.body, "body_note": response.body_note}
    return {**kept, "duration_ms": response.duration_ms, "url": response.url}


def fitted(response: WebhookResponse, room: int) -> Fields:
    """The response as a result of bounded size: if it is too large, first the headers are dropped, then the end of the
    body."""
    headers = sum(_size(name) + _size(value) + _PER_HEADER for name, value in response.headers.items())
    left = room - _FRAME - _size(response.url) - headers
    if left < 0:
        response, left = replace(response, headers={}), left + headers
    if response.body is not None and _size(response.body) > left:
        kept = response.body.encode("utf-8", "replace")[: max(0, left)].decode("utf-8", "ignore")
        response = replace(response, body=kept, body_note=f"cut after {max(0, left):,} bytes")
    return response.to_document()


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def webhook_data(
    request: WebhookRequest, data: Mapping[str, Any] | None, target: str, traceparent: str | None = None
) -> Fields:
    """The data of a webhook job: the request, the data of its templates, and its target."""
    document: Fields = {"request": request.to_document(), "target": target}
    if data is not None:
        document["data"] = dict(data)
    return document if traceparent is None else {**document, "traceparent": traceparent}


def mail_data(fields: Mapping[str, Any]) -> Fields:
    """The data of a mail's job, as given; checked, so that a mail that cannot be sent is refused at once."""
    data = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
    try:
        EmailRequest.model_validate(data)
    except ValidationError as error:
        raise InvalidJob("The mail is not valid: " + "; ".join(explain(error))) from None
    return data
