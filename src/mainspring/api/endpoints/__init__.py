"""The endpoints, one module for each kind of thing."""

from __future__ import annotations

from fastapi import APIRouter

from mainspring.api.endpoints import (
    alerts,
    batches,
    bulk,
    calendars,
    dead_letters,
    flows,
    handlers,
    job_actions,
    job_views,
    jobs,
    limits,
    operations,
    queues,
    schedules,
    v1,
    workers,
)
from mainspring.api.endpoints.access import api_keys, audit, secrets, sessions, settings
from mainspring.api.endpoints.views import events, export, metrics, observability, problems, search

# A request is compared with these in this order: the busiest routes come first.
ROUTERS: list[APIRouter] = [
    bulk.router,
    search.router,
    export.router,
    jobs.router,  # after bulk, search and export: /api/jobs/{id} would match their paths
    job_actions.router,
    job_views.router,
    batches.router,
    flows.router,
    schedules.router,
    calendars.files,  # before calendars.router, which takes the other types of bodies
    calendars.router,
    dead_letters.router,
    dead_letters.redrives,
    operations.router,
    limits.router,
    queues.router,
    workers.router,
    handlers.router,
    events.router,
    observability.router,
    problems.router,
    metrics.router,
    alerts.router,
    v1.router,
    sessions.router,
    api_keys.router,
    secrets.router,
    audit.router,
    settings.router,
]
LIVE: frozenset[str] = frozenset({"/api/events", "/api/jobs/export"})
"""The paths whose answers last long, as streams: a bounded number of them is open at a time."""
STREAMED: frozenset[str] = frozenset({"/api/jobs/bulk", "/api/flows/batch"})
"""The paths whose bodies are read piece by piece."""
