"""The application under attack, in a process whose service has a fault."""

from __future__ import annotations

import importlib
from typing import Any

from mainspring import Scheduler

scheduler: Scheduler = importlib.import_module("target").scheduler


async def _fault(*given: Any, **options: Any) -> None:
    raise RuntimeError("a fault of the service")


setattr(scheduler.calendars, "put", _fault)  # noqa: B010 - a method is replaced on purpose
