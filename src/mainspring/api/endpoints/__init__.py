"""The endpoints, one module for each kind of thing.

A service imports all of them. A command that calls the API in its own process imports those of the subject that it asks
about: the other ones would take longer than its request.
"""

from __future__ import annotations

from importlib import import_module

from fastapi import APIRouter

# A request is compared with these in this order: the busiest routes come first.
_ROUTERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("bulk", "router", ("jobs",)),
    ("views.search", "router", ("jobs",)),
    ("views.export", "router", ("jobs",)),
    ("jobs", "router", ("jobs",)),
    ("job_actions", "router", ("jobs",)),
    ("job_views", "router", ("jobs",)),
    ("jobs", "things", ("jobs",)),  # after all others below /api/jobs: their ids would match the paths of those
    ("batches", "router", ("flows",)),
    ("flows", "router", ("flows",)),
    ("schedules", "router", ("schedules",)),
    ("calendars", "files", ("calendars",)),  # before the router, which takes the other types of bodies
    ("calendars", "router", ("calendars",)),
    ("dead_letters", "router", ("dead-letters",)),
    ("dead_letters", "redrives", ("redrives",)),
    ("operations", "router", ("operations",)),
    ("limits", "router", ("limits", "pauses", "breakers")),
    ("queues", "router", ("queues",)),
    ("workers", "router", ("workers",)),
    ("handlers", "router", ("handlers",)),
    ("views.events", "router", ("events",)),
    ("views.observability", "router", ("observability", "stats")),
    ("views.problems", "router", ("overview",)),
    ("views.metrics", "router", ("metrics",)),
    ("alerts", "router", ("alerts",)),
    ("v1", "router", ("v1",)),
    ("access.sessions", "router", ("session",)),
    ("access.api_keys", "router", ("keys",)),
    ("access.secrets", "router", ("secrets",)),
    ("access.audit", "router", ("audit",)),
    ("access.settings", "router", ("settings",)),
)
"""The modules with their routers, and the subjects of each: the first word of its paths below /api."""
ICS = "text/calendar"
LIVE: frozenset[str] = frozenset({"/api/events", "/api/jobs/export"})
"""The paths whose answers last long, as streams: a bounded number of them is open at a time."""
STREAMED: frozenset[str] = frozenset({"/api/jobs/bulk", "/api/flows/batch"})
"""The paths whose bodies are read piece by piece."""


def routers(subject: str | None = None) -> list[APIRouter]:
    """The routers of the endpoints: of one subject, or all."""
    named = [(module, name) for module, name, subjects in _ROUTERS if subject is None or subject in subjects]
    return [getattr(import_module(f"{__name__}.{module}"), name) for module, name in named]


def subject_of(target: str) -> str:
    """The subject of a path of the API."""
    return target.partition("?")[0].removeprefix("/api").strip("/").partition("/")[0]
