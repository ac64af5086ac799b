"""A worker for jobs that other programs insert in fields of their own, and whose `status` their dashboards read:

    {"scheduler_id": "…", "job_name": "Job_1", "status": "pending", "created_at": ISODate, "trigger_time": ISODate,
     "locked_by": null, "locked_at": null, "payload": {…}}

    python examples/job_scheduler_worker.py          # until Ctrl-C

It picks pending jobs up when their `trigger_time` has come, takes over locks that are stale or have no time, and marks
what it has done as `completed`. `MONGO_URI` says where; without it, it starts a MongoDB of its own in `./.mainspring`.
"""

import asyncio
import logging
import os
import time

from mainspring import FieldMap, JobContext, Scheduler

DB_NAME = os.environ.get("DB_NAME", "scheduler_demo")
COLLECTION_NAME = "jobs"
PROCESSING_TIME = float(os.environ.get("PROCESSING_TIME", "5"))  # seconds
LOCK_EXPIRATION_MINUTES = 15
PICKUP_WINDOW_MINUTES = 30
LOOP_INTERVAL = 30  # seconds; a replica set wakes the worker at once all the same


def process(ctx: JobContext) -> None:
    """One function for all names. A plain function runs in a thread, so that it may block."""
    print(f"{ctx.name} is processed", dict(ctx.data), flush=True)
    time.sleep(PROCESSING_TIME)


scheduler = Scheduler(
    database=DB_NAME,
    collection=COLLECTION_NAME,
    handler=process,
    field_map=FieldMap(takeover=LOCK_EXPIRATION_MINUTES * 60),
    lease=LOCK_EXPIRATION_MINUTES * 60,
    start_within=PICKUP_WINDOW_MINUTES * 60,
    poll_interval=LOOP_INTERVAL,
)

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(scheduler.run())
