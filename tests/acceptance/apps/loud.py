"""The scheduler of the vault in a process that logs all there is to log, and whose service has a fault."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from mainspring import Scheduler

logging.basicConfig(level=logging.DEBUG, format="%(name)s %(levelname)s %(message)s")
scheduler: Scheduler = importlib.import_module("vault").scheduler


async def _fault(*given: Any, **options: Any) -> None:
    raise RuntimeError("a fault of the service")


setattr(scheduler.calendars, "put", _fault)  # noqa: B010 - a method is replaced on purpose
