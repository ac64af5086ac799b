"""The endpoints, one module for each kind of thing."""

from __future__ import annotations

from fastapi import APIRouter

ROUTERS: list[APIRouter] = []
STREAMED: frozenset[str] = frozenset({"/api/jobs/bulk"})
"""The paths whose bodies are read piece by piece."""
