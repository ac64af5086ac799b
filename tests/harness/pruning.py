"""Pruning on demand: the worker's own pruner, without a worker around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring import Keep, Scheduler
from mainspring.engine.pruner import Pruner
from mainspring.model.retention import Retention


def pruner_of(
    scheduler: Scheduler,
    rules: Sequence[Keep] = (),
    *,
    keep_finished: float | None = None,
    keep_failed: float | None = None,
    worker: str = "pruner",
) -> Pruner:
    """The pruner of a connected scheduler that is not started."""
    return Pruner(
        store=scheduler._link.open_store(),
        retention=Retention(rules, keep_finished, keep_failed),
        archive=scheduler._archive,
        events=scheduler._events,
        worker=worker,
        busy=lambda: False,
        failed=_raise,
    )


async def prune(scheduler: Scheduler, rules: Sequence[Keep] = (), **options: Any) -> int:
    """Prune until nothing is left to be pruned; returns how many jobs are gone."""
    jobs = scheduler._link.open_store().connection.jobs
    before = await jobs.count_documents({}, hint="_id_")
    pruner = pruner_of(scheduler, rules, **options)
    while await pruner.run_once():
        pass
    return before - await jobs.count_documents({}, hint="_id_")


def _raise(error: Exception) -> None:
    raise error
