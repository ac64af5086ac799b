"""A worker on the recording handlers, until SIGTERM."""

from __future__ import annotations

import asyncio
import logging

from harness.apps.recording import scheduler

if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    asyncio.run(scheduler.run())
