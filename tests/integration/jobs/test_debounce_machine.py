"""Debounced calls in any order with claims and endings, on a real mongod, against what each call was promised.

A promise is what the last call of a key has been told: which job is its own, and when it will be due. It holds until a
worker has claimed that job, which then has the data of that very call.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar

import pytest
from bson import MinKey
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from harness.inside import documents_of
from harness.servers import Servers
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.model.jobs.draft import make_draft
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.outcome import Cancelled, Completed, Failed, Outcome, Released, Retried, Snoozed
from mainspring.store import Store
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.end_fields import Finish

T = TypeVar("T")
ERROR = JobError("ValueError", "no")
ENDINGS: list[Outcome] = [
    Completed(),
    Failed(ERROR),
    Retried(3.0, ERROR),
    Snoozed(3.0),
    Cancelled("because"),
    Released(),
]
KEYS = st.sampled_from("kl")


@dataclass
class Promise:
    """What the last call of a key was told, and what was known of its burst."""

    job: Any
    n: int
    due: datetime
    began: datetime
    token: int


class Bursts(RuleBasedStateMachine):
    """Calls, time, claims and endings."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    store: ClassVar[Store]
    clock: ClassVar[ManualClock]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        connection = self.store.connection
        for collection in (connection.jobs, connection.keys):
            self.run(collection.delete_many({"_id": {"$gte": MinKey()}}))
        self.n = 0
        self.promises: dict[str, Promise] = {}
        self.running: list[Document] = []

    @rule(key=KEYS, debounce=st.integers(1, 6), extra=st.none() | st.integers(0, 6))
    def call(self, key: str, debounce: int, extra: int | None) -> None:
        self.n += 1
        most = None if extra is None else debounce + extra
        draft = make_draft("x", {"n": self.n}, debounce=debounce, debounce_max=most, dedupe_key=key)
        before = self.promises.get(key)
        waits = before is not None and self._waits(before.job)
        document, fresh = self.run(self.store.inserts.insert(draft))
        assert fresh is not waits
        now = self.clock.now()
        if waits:
            assert before is not None and document["_id"] == before.job
        same_burst = waits and before is not None and before.token == document["token"]
        began = before.began if same_burst and before is not None else now
        due = now + timedelta(seconds=debounce)
        due = due if most is None else min(due, began + timedelta(seconds=most))
        self.promises[key] = Promise(document["_id"], self.n, due, began, document["token"])

    @rule(key=KEYS)
    def call_in_a_crowd(self, key: str) -> None:
        drafts = [make_draft("x", {"n": self.n + i}, debounce=5, dedupe_key=key) for i in (1, 2, 3)]

        async def crowd() -> list[tuple[Document, bool]]:
            return await asyncio.gather(*(self.store.inserts.insert(draft) for draft in drafts))

        before = self.promises.get(key)
        waits = before is not None and self._waits(before.job)
        told = self.run(crowd())
        assert len({document["_id"] for document, _ in told}) == 1
        assert sum(fresh for _, fresh in told) == (0 if waits else 1)
        document = self._job(told[0][0]["_id"])
        assert document["data"]["n"] in range(self.n + 1, self.n + 4)
        self.n = document["data"]["n"]
        self.promises[key] = Promise(
            document["_id"],
            self.n,
            self.clock.now() + timedelta(seconds=5),
            document["burst"]["at"],
            document["token"],
        )

    @rule(seconds=st.integers(1, 6))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def a_worker_claims_what_is_due(self) -> None:
        found = self.run(self.store.claims.candidates("default", 10))
        batch = self.run(self.store.claims.claim(found, "worker", 3600, lambda _: 9))
        assert len(batch.jobs) == len(found)
        self.running += documents_of(batch)

    @precondition(lambda self: self.running)
    @rule(ending=st.sampled_from(ENDINGS))
    def an_attempt_ends(self, ending: Outcome) -> None:
        job, now = self.running.pop(0), self.clock.now()
        finish = Finish(job["_id"], job["token"], job["tries"], "worker", now, now, ending)
        assert self.run(self.store.finishing.finish([finish])) == [ending]

    @invariant()
    def every_call_is_kept_until_a_worker_has_it(self) -> None:
        for promise in getattr(self, "promises", {}).values():
            document = self._job(promise.job)
            assert document["data"] == {"n": promise.n}
            if document["token"] == promise.token:
                assert (document["state"], document["ready"]) == ("pending", True)
                assert (document["run_at"], document["tries"]) == (promise.due, 0)

    def _job(self, job_id: Any) -> Document:
        return self.run(self.store.jobs.get(job_id))

    def _waits(self, job_id: Any) -> bool:
        document = self._job(job_id)
        return bool(document["state"] == "pending" and document["tries"] == 0)


@pytest.fixture
def machine(servers: Servers) -> Iterator[type[Bursts]]:
    """The machine on a store of its own, with an event loop of its own."""
    name = f"t_{secrets.token_hex(4)}"
    loop = asyncio.new_event_loop()
    clock = ManualClock()
    connection = loop.run_until_complete(Connection.open(Settings(), clock, uri=servers.uri(name)))
    Bursts.loop, Bursts.clock, Bursts.store = loop, clock, Store(connection)
    yield Bursts
    loop.run_until_complete(connection.client.drop_database(name))
    loop.run_until_complete(connection.close())
    loop.close()


@pytest.mark.timeout(600)  # to shrink an example takes its time
@pytest.mark.slow
def test_every_call_leads_to_a_run_with_its_data_unless_a_later_call_changed_it_before(machine: type[Bursts]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
