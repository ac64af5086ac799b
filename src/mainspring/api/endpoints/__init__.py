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

# In the order in which a request is compared with them: what is asked most often first.
ROUTERS: list[APIRouter] = [
    bulk.router,
    search.router,
    created.router,  # after the two: /api/jobs/{id} would take their paths
    actions.router,
    schedules.router,
    calendars.router,
    dead_letters.router,
    dead_letters.redrives,
    flow.router,
    overview.router,
    events.router,
    observability.router,
    v1.router,
    sessions.router,
    keys.router,
    secrets.router,
    audit.router,
]
STREAMED: frozenset[str] = frozenset({"/api/jobs/bulk"})
"""The paths whose bodies are read piece by piece."""
