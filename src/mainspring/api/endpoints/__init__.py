"""The endpoints, one module for each kind of thing."""

from __future__ import annotations

from fastapi import APIRouter

from mainspring.api.endpoints import (
    actions,
    audit,
    bulk,
    calendars,
    created,
    dead_letters,
    events,
    flow,
    keys,
    observability,
    overview,
    schedules,
    search,
    secrets,
    sessions,
    v1,
)

ROUTERS: list[APIRouter] = [
    secrets.router,
    keys.router,
    sessions.router,
    audit.router,
    observability.router,
    events.router,
    v1.router,
    bulk.router,
    search.router,
    actions.router,
    schedules.router,
    calendars.router,
    dead_letters.router,
    dead_letters.redrives,
    flow.router,
    overview.router,
    created.router,  # last: /api/jobs/{id} would take the paths of others
]
STREAMED: frozenset[str] = frozenset({"/api/jobs/bulk"})
"""The paths whose bodies are read piece by piece."""
