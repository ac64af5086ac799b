"""Which policy counts for a job: its own, its handler's, or the scheduler's default, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.handlers import Handler, Handlers
from mainspring.model.guarantee import AT_LEAST_ONCE, AT_MOST_ONCE
from mainspring.model.retry import Retry

_ONE_ATTEMPT = Retry(attempts=1)


class Policies:
    """The guarantee, the retry policy and the timeout of any job."""

    def __init__(self, handlers: Handlers, retry: Retry, timeout: float | None) -> None:
        self._handlers = handlers
        self._retry = retry
        self._timeout = timeout

    def retry(self, document: Mapping[str, Any], handler: Handler | None, error: BaseException | None = None) -> Retry:
        """The policy for a job; the handler's rules by exception type come before the job's own numbers."""
        if self.executes(document, handler) == AT_MOST_ONCE:
            return _ONE_ATTEMPT
        declared = (handler and handler.retry) or self._retry
        ruled = declared.rule_for(error)
        if ruled is not declared:
            return ruled
        stored = document.get("retry")
        if stored:
            try:
                return Retry.from_document(stored)
            except (ConfigurationError, TypeError):
                return declared  # somebody else wrote it, and it is no policy
        return declared

    def executes(self, document: Mapping[str, Any], handler: Handler | None) -> str:
        """The guarantee that counts for a job."""
        own: str | None = document.get("executes")
        return own or (handler.executes if handler is not None else None) or AT_LEAST_ONCE

    def once(self, document: Mapping[str, Any]) -> bool:
        """Whether a job may be started once only."""
        return self.executes(document, self._handlers.get(document["name"])) == AT_MOST_ONCE

    def attempts(self, document: Mapping[str, Any]) -> int:
        """How often a job may be tried."""
        if self.once(document):
            return 1
        if not document.get("retry"):
            handler = self._handlers.get(document["name"])
            return ((handler and handler.retry) or self._retry).attempts
        return self.retry(document, self._handlers.get(document["name"])).attempts

    def timeout(self, document: Mapping[str, Any], handler: Handler) -> float | None:
        """Seconds that an attempt may take; None for no limit."""
        own = document.get("timeout")
        if isinstance(own, int | float) and own > 0:
            return float(own)
        return handler.timeout if handler.timeout is not None else self._timeout
