"""The metrics of the service: made when the extra `metrics` is installed, and counted from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.api.problems import Problem
from mainspring.client.scheduler import Scheduler
from mainspring.errors import ConfigurationError

if TYPE_CHECKING:
    from mainspring.observability.metrics.collector import Metrics

PATH = "/metrics"


class ServiceMetrics:
    """The metrics of one running service; without the extra, the error that names it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._metrics: Metrics | None = None
        self._missing = ""
        try:
            from mainspring.observability.metrics.collector import Metrics
        except ConfigurationError as error:
            self._missing = str(error)
        else:
            self._metrics = Metrics(scheduler, shared=True)

    async def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition, and its content type."""
        if self._metrics is None:
            raise Problem(501, self._missing)
        return await self._metrics.render(accept)
