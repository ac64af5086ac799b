"""The policy in force for a job: its own, its handler's, or the scheduler's default, in that order."""

from __future__ import annotations

from mainspring.engine.handler import Handler
from mainspring.engine.handlers import Handlers
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.guarantee import AT_LEAST_ONCE, AT_MOST_ONCE
from mainspring.model.jobs.retry import Retry
from mainspring.store.jobs.stored_job import StoredJob

_ONE_ATTEMPT = Retry(attempts=1)


class Policies:
    """The guarantee, the retry policy and the timeout of any job."""

    def __init__(self, handlers: Handlers, retry: Retry, timeout: float | None) -> None:
        self._handlers = handlers
        self._retry = retry
        self._timeout = timeout

    def retry(self, job: StoredJob, handler: Handler | None, error: BaseException | None = None) -> Retry:
        """The policy for a job; the handler's rules by exception type come before the job's own numbers."""
        if self.guarantee(job, handler) == AT_MOST_ONCE:
            return _ONE_ATTEMPT
        declared = (handler and handler.retry) or self._retry
        ruled = declared.rule_for(error)
        if ruled is not declared:
            return ruled
        stored = job.retry
        if stored:
            try:
                return Retry.from_document(stored)
            except (ConfigurationError, TypeError):
                return declared  # another program wrote a document that is no policy
        return declared

    def guarantee(self, job: StoredJob, handler: Handler | None) -> str:
        """The guarantee in force for a job."""
        return job.guarantee or (handler.guarantee if handler is not None else None) or AT_LEAST_ONCE

    def once(self, job: StoredJob) -> bool:
        """Whether a job may be started once only."""
        return self.guarantee(job, self._handlers.get(job.name)) == AT_MOST_ONCE

    @property
    def isolates_suspects(self) -> bool:
        """Whether a job whose worker has died runs in a process of its own."""
        return self._handlers.isolate_suspects

    def attempts(self, job: StoredJob) -> int:
        """The number of attempts that a job may have."""
        handler = self._handlers.get(job.name)
        if self.guarantee(job, handler) == AT_MOST_ONCE:
            return 1
        if job.retry is None:
            return ((handler and handler.retry) or self._retry).attempts
        return self.retry(job, handler).attempts

    def timeout(self, job: StoredJob, handler: Handler) -> float | None:
        """The seconds that an attempt may take; None for no limit."""
        if job.timeout is not None:
            return job.timeout
        return handler.timeout if handler.timeout is not None else self._timeout
