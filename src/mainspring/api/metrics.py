"""`GET /metrics` of the service, for Prometheus: what this process does, and the facts that all processes share.

It names every queue and job name, so that it needs a key of the role viewer without a scope, unless the setting
`metrics_open` opens it to every client. Without the extra `metrics`, it says what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response

from mainspring.api.dependencies import Service, caller
from mainspring.api.problems import Problem
from mainspring.client.scheduler import Scheduler
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import VIEWER

if TYPE_CHECKING:
    from mainspring.observability.metrics.collector import Metrics

PATH = "/metrics"


def add_metrics(app: FastAPI, scheduler: Scheduler) -> None:
    """Add the page to an app, and count from now on."""
    metrics, missing = _make(scheduler)
    known = caller(VIEWER)

    @app.get(PATH, include_in_schema=False)
    async def exposition(request: Request) -> Response:
        service: Service = request.app.state.service
        if not service.settings.metrics_open:
            (await known(request)).check_everything()
        if metrics is None:
            raise Problem(501, missing)
        body, content_type = await metrics.render(request.headers.get("accept", ""))
        return Response(body, media_type=content_type, headers={"Cache-Control": "no-store"})


def _make(scheduler: Scheduler) -> tuple[Metrics | None, str]:
    try:
        from mainspring.observability.metrics.collector import Metrics
    except ConfigurationError as error:
        return None, str(error)
    return Metrics(scheduler, shared=True), ""
