"""The errors of an attempt at a webhook. `webhook.py` raises them."""

from __future__ import annotations

from typing import Any

from mainspring.errors import MainspringError
from mainspring.jobtypes.http.response import WebhookResponse
from mainspring.jobtypes.http.statuses import is_outage


class WebhookError(MainspringError):
    """A webhook did not succeed. `response` is None if there was none."""

    def __init__(self, message: str, response: WebhookResponse | None = None) -> None:
        super().__init__(message)
        self.response = response
        self.outage: bool | None = None if response is None else is_outage(response.status)
        """Whether the target is down, for breakers; None if that is unknown."""
        self.details: dict[str, Any] | None = None
        """The details that are stored with the attempt's error."""

    def __reduce__(self) -> tuple[type[WebhookError], tuple[object, ...]]:
        return type(self), (str(self), self.response)


class WebhookRejected(WebhookError):
    """Another attempt would end the same way: the job has failed for good."""


class WebhookFailed(WebhookError):
    """Another attempt may help; `retry_after` are the seconds that the target asks to wait, None if it does not ask."""

    def __init__(self, message: str, response: WebhookResponse | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, response)
        self.retry_after = retry_after
        if response is None:
            self.outage = True

    def __reduce__(self) -> tuple[type[WebhookError], tuple[object, ...]]:
        return type(self), (str(self), self.response, self.retry_after)
