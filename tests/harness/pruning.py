"""Pruning on demand: the worker's own pruner, without a worker around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.inside import inside
from mainspring import Keep, Scheduler
from mainspring.engine.services.pruner import Pruner
from mainspring.model.jobs.retention import Retention


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
        store=inside(scheduler).open_store,
        retention=Retention(rules, keep_finished, keep_failed),
        archive=inside(scheduler).archive,
        events=inside(scheduler).events,
        worker=worker,
        busy=lambda: False,
        failed=_raise,
    )


async def prune(scheduler: Scheduler, rules: Sequence[Keep] = (), **options: Any) -> int:
    """Prune until nothing is left to be pruned; returns how many jobs are gone."""
    jobs = inside(scheduler).open_store.connection.jobs
    before = await jobs.count({}, hint="_id_")
    pruner = pruner_of(scheduler, rules, **options)
    while await pruner.prune():
        pass
    return before - await jobs.count({}, hint="_id_")


def _raise(error: Exception) -> None:
    raise error
