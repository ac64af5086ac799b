"""One pass of the heartbeat: the order of its parts."""

from __future__ import annotations

from typing import Any, cast

from mainspring.config.settings import Settings
from mainspring.engine.handler import Handler
from mainspring.engine.heartbeat import Heartbeat
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimedJobs
from mainspring.errors import Unavailable
from mainspring.store import Store
from mainspring.store.jobs.stored_job import StoredJob


class Asked:
    """Stands in for the store and its verbs of the heartbeat: notes which are asked, in their order, and answers that
    the database is out of reach."""

    def __init__(self) -> None:
        self.verbs: list[str] = []

    def renewals(self) -> Asked:
        return self

    def __getattr__(self, verb: str) -> Any:
        def ask(*arguments: object) -> None:
            self.verbs.append(verb)
            raise Unavailable("out of reach")

        return ask


class NoLimits:
    """A limiter without limits."""

    idle = True


async def nothing() -> None: ...


def test_claims_are_renewed_before_anything_else_that_is_due() -> None:
    claimed_jobs, asked = ClaimedJobs(), Asked()
    job = StoredJob({"_id": "1", "token": 1, "name": "x", "ahead": True})
    claimed = ClaimedJob(job, "claim", Handler("x", nothing), float("-inf"), 1e18)
    claimed_jobs.add(claimed)
    heartbeat = Heartbeat(
        cast("Store", asked), Settings(), claimed_jobs, cast("Limiter", NoLimits()), "w1", dict, lambda drain: None
    )
    heartbeat.run_once()
    assert asked.verbs[0] == "renew"
    assert {"beat", "cancellations", "asked_stacks"} <= set(asked.verbs[1:])
