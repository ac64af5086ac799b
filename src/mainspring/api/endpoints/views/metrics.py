"""The metrics for Prometheus: what this process does, and the facts about queues that all processes share.

The answer names every queue and job name, so that it needs a key of the role viewer without a scope, unless the setting
`metrics_open` opens it to every client.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from mainspring.api.dependencies import Service, caller
from mainspring.api.metrics import PATH
from mainspring.model.access.api_keys import VIEWER
from mainspring.model.fields import Fields

router = APIRouter(tags=["observability"])
_known = caller(VIEWER)
_TYPES: dict[int | str, Fields] = {
    200: {
        "description": "The metrics, in a text format of Prometheus that the header Accept chooses.",
        "content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "application/openmetrics-text")},
    }
}


@router.get(PATH, summary="Read the metrics", response_class=PlainTextResponse, responses=_TYPES)
async def read_metrics(request: Request) -> Response:
    """Return the metrics of this process, and of the queues, workers, schedules and breakers, for Prometheus. This
    needs a key without a scope, or the setting `MAINSPRING_METRICS_OPEN`, and the extra `metrics`."""
    service: Service = request.app.state.service
    if not service.settings.metrics_open:
        (await _known(request)).check_everything()
    body, content_type = await service.metrics.render(request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})
