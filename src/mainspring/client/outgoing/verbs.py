"""The verbs of the Scheduler for the jobs that need no handler of the user's own: `webhook` and `email`.

They make the data of the job, checked in full, and store it as any other job or schedule. A process that calls them
gets the handlers as well, so that its own worker, if it has one, sends them; a worker in another process calls
`outgoing`. The modules that send need the extras `http` and `email`, and are imported at the first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, Unpack, cast, overload

from mainspring.client.namespaces.schedules import Schedule
from mainspring.client.outgoing.options import OutgoingOptions, missing_extra
from mainspring.engine.handlers import Named
from mainspring.errors import InvalidJob
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.options import JobOptions
from mainspring.model.jobs.reserved_names import EMAIL, HTTP, QUEUES
from mainspring.model.jobs.retry import seconds
from mainspring.model.schedules.schedule import RepeatOptions
from mainspring.rules import Rule

if TYPE_CHECKING:
    from mainspring.client.scheduler import Scheduler


class WebhookFields(TypedDict, total=False):
    """The request of a webhook, beside its URL. `timeout`, among the options of jobs, is that of one request."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str | int | float | bool | list[str]]
    body: Any
    """A text is sent unchanged; any other value as JSON."""
    body_base64: str
    success: Sequence[int | str]
    retry_on: Sequence[int | str]
    redirects: int
    max_response: int
    sign_with: Sequence[str]
    templates: bool


class WebhookOptions(WebhookFields, JobOptions, total=False):
    """The options of `webhook()`: those of its request, and of its job."""


class RepeatedWebhookOptions(WebhookFields, RepeatOptions, total=False):
    """The options of `webhook(repeat=…)`: those of its request, of its jobs, and of its schedule."""


class _Schedules(Protocol):
    """The part of the Scheduler that stores the jobs."""

    async def schedule(
        self, name: Named, data: Mapping[str, Any] | None = None, *, repeat: Any = None, **options: Any
    ) -> Any: ...


class OutgoingVerbs:
    """Webhooks and mail, as verbs of the Scheduler."""

    _sends = False

    def outgoing(self, **settings: Unpack[OutgoingOptions]) -> Self:
        """Let the worker of this process send webhooks and, if an SMTP server is configured, email. Settings that you
        do not pass, as in `scheduler.outgoing(http_allow="…")`, come from the environment: MAINSPRING_HTTP_ALLOW and
        others."""
        scheduler = cast("Scheduler", self)
        try:
            from mainspring.client.outgoing.builtin_jobs import add_builtin_handlers
            from mainspring.client.outgoing.settings import outgoing_settings
        except ModuleNotFoundError as error:
            raise missing_extra(error) from None
        add_builtin_handlers(scheduler, outgoing_settings(**settings))
        self._sends = True
        return self

    @overload
    async def webhook(
        self,
        url: str,
        *,
        name: str | None = None,
        data: Mapping[str, Any] | None = None,
        repeat: None = None,
        **options: Unpack[WebhookOptions],
    ) -> Job: ...
    @overload
    async def webhook(
        self,
        url: str,
        *,
        name: str | None = None,
        data: Mapping[str, Any] | None = None,
        repeat: Rule | Mapping[str, Any],
        **options: Unpack[RepeatedWebhookOptions],
    ) -> Schedule: ...
    async def webhook(
        self,
        url: str,
        *,
        name: str | None = None,
        data: Mapping[str, Any] | None = None,
        repeat: Rule | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Job | Schedule:
        """Store a job that makes an HTTP request: `await scheduler.webhook("https://…", body={"order": 7})`. With
        `repeat`, store a schedule of such jobs. `name` is the label of the job; searches can filter by it. `data` fills
        templates such as `{{data.order}}`. `WebhookFields` lists the fields of the request. The other options are those
        of `schedule()`; `timeout` applies to one request."""
        self._send()
        from mainspring.client.outgoing.builtin_jobs import webhook_data
        from mainspring.jobtypes.http.request import parse_request
        from mainspring.jobtypes.http.urls import target_of

        fields = {key: options.pop(key) for key in WebhookFields.__annotations__ if key in options}
        fields = {key: value for key, value in fields.items() if value is not None or key == "body"}
        if options.get("timeout") is not None:
            fields["timeout"] = seconds(options.pop("timeout"), "timeout")
        request = parse_request({**_plain(fields), "url": url}, data or {})
        made = webhook_data(request, data, target_of(request.url))
        return await self._store(HTTP, made, name, repeat, options)

    @overload
    async def email(
        self,
        to: str | Sequence[str],
        subject: str = "",
        text: str = "",
        *,
        html: str | None = None,
        cc: str | Sequence[str] = (),
        bcc: str | Sequence[str] = (),
        sender: str | None = None,
        reply_to: str | Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        repeat: None = None,
        **options: Unpack[JobOptions],
    ) -> Job: ...
    @overload
    async def email(
        self,
        to: str | Sequence[str],
        subject: str = "",
        text: str = "",
        *,
        html: str | None = None,
        cc: str | Sequence[str] = (),
        bcc: str | Sequence[str] = (),
        sender: str | None = None,
        reply_to: str | Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        repeat: Rule | Mapping[str, Any],
        **options: Unpack[RepeatOptions],
    ) -> Schedule: ...
    async def email(
        self,
        to: str | Sequence[str],
        subject: str = "",
        text: str = "",
        *,
        html: str | None = None,
        cc: str | Sequence[str] = (),
        bcc: str | Sequence[str] = (),
        sender: str | None = None,
        reply_to: str | Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        repeat: Rule | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Job | Schedule:
        """Store a job that sends an email: `await scheduler.email("ann@example.com", "Your report", "It is ready.")`.
        With `repeat`, store a schedule of such jobs. The sender is `sender`, or MAINSPRING_SMTP_FROM by default. `name`
        is the label of the job; searches can filter by it. The other options are those of `schedule()`."""
        self._send()
        from mainspring.client.outgoing.builtin_jobs import mail_data

        fields = {"cc": cc, "bcc": bcc, "from": sender, "replyTo": reply_to, "headers": headers, "html": html}
        made = mail_data({"to": to, "subject": subject, "text": text, **{k: v for k, v in fields.items() if v}})
        return await self._store(EMAIL, made, name, repeat, options)

    def _send(self) -> None:
        """Let the worker of this process send what this process makes."""
        if not self._sends:
            handlers = cast("Scheduler", self).workers.handler_names or ()
            if HTTP not in handlers:
                self.outgoing()
            self._sends = True

    async def _store(
        self, name: str, data: dict[str, Any], label: str | None, repeat: Any, options: dict[str, Any]
    ) -> Job | Schedule:
        if options.get("guarantee") == "exactly_once":
            raise InvalidJob("Nothing outside the database can be done exactly once; leave out guarantee.")
        given = {**options, "queue": options.get("queue") or QUEUES[name], "label": label}
        made: Job | Schedule = await cast("_Schedules", self).schedule(name, data, repeat=repeat, **given)
        return made


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with plain mappings and lists, as a request is stored."""
    return {
        key: dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        for key, value in fields.items()
    }
