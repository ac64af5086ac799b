"""A worker on the recording handlers, or on those of another module of tests, until SIGTERM."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os

from harness.processes import APP_VARIABLE, SAFETY_NET_VARIABLE
from mainspring.engine.services import timekeeper

if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    if net := os.environ.get(SAFETY_NET_VARIABLE):
        timekeeper._SAFETY_NET = float(net)
    app = importlib.import_module(os.environ.get(APP_VARIABLE, "harness.apps.recording"))
    asyncio.run(app.scheduler.run())
