"""The store's verbs in any order, on a real mongod, against a plain-dict model.

The clock is a ManualClock. Workers in this machine believe in their claims for ever, look at candidates and at lost
jobs long before they act on them, and repeat themselves; nothing of that may change what the model does not change.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import pytest
from bson import MinKey
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from harness.inside import documents_of
from harness.servers import Servers
from integration.jobs.job_model import LEGAL_MOVES, LIVE, Holder, Model, ModelJob
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.errors import InvalidJob, JobStateError
from mainspring.model.jobs.draft import make_draft
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.outcome import Cancelled, Completed, Failed, Outcome, Released, Retried, Snoozed
from mainspring.store import Store
from mainspring.store.codec import document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.end_fields import Finish
from mainspring.store.jobs.leases import Renewals
from mainspring.store.jobs.stored_job import StoredJob

T = TypeVar("T")
Data = st.DataObject

LEASE = 60.0
DELAY = 30.0
ERROR = JobError("ValueError", "no")
ENDINGS: dict[str, Outcome] = {
    "completed": Completed(),
    "failed": Failed(ERROR),
    "retried": Retried(DELAY, ERROR),
    "snoozed": Snoozed(DELAY),
    "cancelled": Cancelled("because"),
    "released": Released(),
}
QUEUES = st.sampled_from(("a", "b"))
KEYS = st.sampled_from((None, None, "k", "l"))
WORKERS = st.sampled_from("AB")
# Each step with what it needs and its weight: those that lead deepest come most often.
STEPS = {
    "insert": ("few jobs", 2),
    "insert_many": ("few jobs", 1),
    "look": ("due", 3),
    "claim": ("sightings", 3),
    "look_and_claim": ("due", 2),
    "renew": ("holders", 1),
    "notice_cancellations": ("running", 1),
    "finish": ("holders", 3),
    "finish_together": ("holders", 1),
    "rescue": ("running", 1),
    "no_worker_renews_for_long": ("running", 1),
    "see_a_running_job": ("running", 1),
    "give_back_what_was_seen": ("lost", 2),
    "cancel": ("jobs", 1),
    "retry": ("ended", 2),
    "run_now": ("jobs", 1),
    "edit": ("pending", 2),
    "delete": ("jobs", 1),
    "hold": ("pending", 1),
    "release": ("waiting_for", 2),
    "expire": ("late", 2),
    "time_passes": ("jobs", 1),
}


class Jobs(RuleBasedStateMachine):
    """Jobs from insert to end, and back. One rule draws among the steps that can do something now."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    store: ClassVar[Store]
    renewals: ClassVar[Renewals]
    clock: ClassVar[ManualClock]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        connection = self.store.connection
        self.run(connection.jobs.delete_many({"_id": {"$gte": MinKey()}}))
        self.run(connection.keys.delete_many({"_id": {"$gte": MinKey()}}))
        self.model = Model()
        self.before: dict[Any, Document] = {}
        self.sightings: list[list[StoredJob]] = []
        self.holders: list[Holder] = []
        self.lost: list[Document] = []
        self._insert(make_draft("x", None, queue="a"))
        self._insert(make_draft("x", None, queue="a", start_within=45.0, dedupe_key="k"))

    @rule(data=st.data())
    def step(self, data: Data) -> None:
        there = self._what_is_there()
        possible = [name for name, (need, weight) in STEPS.items() if need in there for _ in range(weight)]
        getattr(self, data.draw(st.sampled_from(possible)))(data)

    def _what_is_there(self) -> set[str]:
        jobs = self.model.jobs.values()
        now = self.clock.now()
        facts: dict[str, Any] = {
            "jobs": jobs,
            "few jobs": len(jobs) < 5,
            "due": any(self.model.due(queue, now, 1) for queue in "ab"),
            "sightings": self.sightings,
            "holders": self.holders,
            "lost": self.lost,
            "running": any(job.state == "running" for job in jobs),
            "pending": any(job.state == "pending" for job in jobs),
            "ended": any(job.state not in LIVE for job in jobs),
            "waiting_for": any(job.waiting_for for job in jobs),
            "late": self.model.late(now),
        }
        return {name for name, fact in facts.items() if fact}

    def _some_job(self, data: Data) -> Any:
        return data.draw(st.sampled_from(list(self.model.jobs)))

    def _some_holders(self, data: Data, most: int) -> list[Holder]:
        """Some holders of different jobs, right or wrong in their belief."""
        drawn = data.draw(st.lists(st.sampled_from(self.holders), min_size=1, max_size=most))
        return list({holder.id: holder for holder in drawn}.values())

    # -- inserting -------------------------------------------------------------------------------------------------

    def insert(self, data: Data) -> None:
        self._insert(
            make_draft(
                "x",
                None,
                queue=data.draw(QUEUES),
                priority=data.draw(st.integers(4, 6)),
                delay=data.draw(st.sampled_from((0.0, 0.0, 20.0))),
                start_within=data.draw(st.sampled_from((None, None, 45.0))),
                dedupe_key=data.draw(KEYS),
            )
        )

    def insert_many(self, data: Data) -> None:
        drafts = [make_draft("x", None, queue="a", dedupe_key=key) for key in data.draw(st.lists(KEYS, max_size=4))]
        outcomes = self.run(self.store.inserts.insert_many(drafts))
        for draft, outcome in zip(drafts, outcomes, strict=True):
            assert not isinstance(outcome, Exception)
            self._inserted(draft, {"_id": document_id(outcome.id)}, not outcome.deduplicated)

    def _insert(self, draft: Any) -> None:
        self._inserted(draft, *self.run(self.store.inserts.insert(draft)))

    def _inserted(self, draft: Any, document: Document, fresh: bool) -> None:
        holder = None if draft.dedupe_key is None else self.model.key_holder(draft.dedupe_key)
        assert fresh == (holder is None)
        if holder is not None:
            assert document["_id"] == holder
            return
        assert document["_id"] not in self.model.jobs
        run_at = self.clock.now() + timedelta(seconds=draft.delay)
        job = ModelJob(draft.queue, draft.priority, run_at, draft.start_within, draft.dedupe_key)
        self.model.insert(document["_id"], job)

    # -- claiming --------------------------------------------------------------------------------------------------

    def look(self, data: Data) -> None:
        queue, limit = data.draw(QUEUES), data.draw(st.integers(1, 4))
        found = self.run(self.store.claims.candidates(queue, limit))
        assert [job.id for job in found] == self.model.due(queue, self.clock.now(), limit)
        if found:
            self.sightings.append(found)

    def claim(self, data: Data) -> None:
        """Claim what was seen some time ago."""
        seen = self.sightings.pop(data.draw(st.integers(0, len(self.sightings) - 1)))
        self._claim(seen, data.draw(WORKERS), data.draw(st.integers(1, 3)))

    def look_and_claim(self, data: Data) -> None:
        seen = self.run(self.store.claims.candidates(data.draw(QUEUES), 2))
        if seen:
            self._claim(seen, data.draw(WORKERS), 2)

    def _claim(self, seen: list[StoredJob], worker: str, attempts: int) -> None:
        as_seen = [(job.id, job.document["rev"]) for job in seen]
        batch = self.run(self.store.claims.claim(seen, worker, LEASE, lambda document: attempts))
        lease_until = self.clock.now() + timedelta(seconds=LEASE)
        expected = self.model.claim(as_seen, batch.claim, lease_until, attempts)
        assert [document["_id"] for document in documents_of(batch)] == expected
        assert batch.lost == len(seen) - len(expected)
        for document in documents_of(batch):
            job = self.model.jobs[document["_id"]]
            assert (document["token"], document["tries"], document["rev"]) == (job.token, job.tries, job.rev)
            self.holders.append(Holder(document["_id"], job.token, job.tries, batch.claim, worker))

    def renew(self, data: Data) -> None:
        some = self._some_holders(data, 3)
        gone = self.renewals.renew([holder.claim for holder in some], [holder.id for holder in some])
        assert gone == self.model.renew(some, self.clock.now() + timedelta(seconds=LEASE))

    def notice_cancellations(self, data: Data) -> None:
        noticed = {job_id: token for w in "AB" for job_id, (token, _) in self.renewals.cancellations(w).items()}
        assert noticed == {job_id: job.token for job_id, job in self.model.jobs.items() if job.cancel}

    # -- ending ----------------------------------------------------------------------------------------------------

    def finish(self, data: Data) -> None:
        """End an attempt; the holder may have lost it, or ended it before."""
        self._finish(self._some_holders(data, 1), data.draw(st.sampled_from(list(ENDINGS))))

    def finish_together(self, data: Data) -> None:
        self._finish(self._some_holders(data, 4), data.draw(st.sampled_from(list(ENDINGS))))

    def _finish(self, some: list[Holder], outcome: str) -> None:
        now = self.clock.now()
        endings = [Completed(place) if outcome == "completed" else ENDINGS[outcome] for place in range(len(some))]
        finishes = [
            Finish(h.id, h.token, h.tries, h.worker, now, now, ending) for h, ending in zip(some, endings, strict=True)
        ]
        written = self.run(self.store.finishing.finish(finishes))
        expected = [self.model.finish(holder, outcome, now, DELAY, place) for place, holder in enumerate(some)]
        assert [end.outcome for end in written] == expected

    def rescue(self, data: Data | None = None) -> None:
        before = self.clock.now() - timedelta(seconds=self.store.connection.settings.rescue_grace)
        expected = {job_id: self.model.rescue(job_id) for job_id in self.model.overdue_leases(before)}
        rescued = self.run(self.store.rescues.rescue())
        assert {one.document["_id"]: one.state for one in rescued} == expected

    def no_worker_renews_for_long(self, data: Data) -> None:
        """The shortest way to holders that have lost everything."""
        self.clock.advance(LEASE + 5)
        self.rescue()

    def see_a_running_job(self, data: Data) -> None:
        """As a rescuer sees it that is about to give it back, and is held up."""
        running = [job_id for job_id, job in self.model.jobs.items() if job.state == "running"]
        self.lost.append(self.run(self.store.jobs.get(data.draw(st.sampled_from(running)))))

    def give_back_what_was_seen(self, data: Data) -> None:
        document = self.lost.pop(data.draw(st.integers(0, len(self.lost) - 1)))
        rescued = self.run(self.store.rescues.give_back([document]))
        job = self.model.jobs.get(document["_id"])
        as_seen = ("running", document["token"], document["lease_until"])
        if job is not None and (job.state, job.token, job.lease_until) == as_seen:
            job.cancel = "cancel" in document  # a rescuer does what it saw, and a later cancel loses to it
            self.model.rescue(document["_id"])
            assert len(rescued) == 1
        else:
            assert rescued == []

    # -- by hand ---------------------------------------------------------------------------------------------------

    def cancel(self, data: Data) -> None:
        job_id = self._some_job(data)
        _, ended = self.run(self.store.jobs.cancel(job_id, "enough"))
        assert ended == self.model.cancel(job_id)

    def retry(self, data: Data) -> None:
        job_id = self._some_job(data)
        verdict = self.model.may_retry(job_id)
        if verdict == "yes":
            self.run(self.store.jobs.retry(job_id))
            self.model.retry(job_id, self.clock.now())
        else:
            with pytest.raises(JobStateError if verdict == "state" else InvalidJob):
                self.run(self.store.jobs.retry(job_id))

    def run_now(self, data: Data) -> None:
        job_id = self._some_job(data)
        job = self.model.jobs[job_id]
        if job.state == "pending":
            self.run(self.store.jobs.run_now(job_id))
            job.run_at, job.started_for = self.clock.now(), None
            job.rev += 1
        else:
            with pytest.raises(JobStateError):
                self.run(self.store.jobs.run_now(job_id))

    def edit(self, data: Data) -> None:
        job_id = self._some_job(data)
        job = self.model.jobs[job_id]
        queue, priority = data.draw(QUEUES), data.draw(st.integers(4, 6))
        within = data.draw(st.sampled_from((None, 10.0)))
        fields = {"queue": queue, "priority": priority, "start_within": within}
        if job.state == "pending":
            self.run(self.store.jobs.edit(job_id, fields))
            job.queue, job.priority, job.start_within, job.started_for = queue, priority, within, None
            job.rev += 1
        else:
            with pytest.raises(JobStateError):
                self.run(self.store.jobs.edit(job_id, fields))

    def delete(self, data: Data) -> None:
        job_id = self._some_job(data)
        if self.model.jobs[job_id].state == "running":
            with pytest.raises(JobStateError):
                self.run(self.store.jobs.delete(job_id))
        else:
            self.run(self.store.jobs.delete(job_id))
            del self.model.jobs[job_id]

    # -- tending ---------------------------------------------------------------------------------------------------

    def hold(self, data: Data) -> None:
        some = data.draw(st.sets(st.sampled_from(list(self.model.jobs)), min_size=1, max_size=3))
        assert self.run(self.store.upkeep.hold(list(some), "pause", "held back")) == self.model.hold(some)

    def release(self, data: Data) -> None:
        assert self.run(self.store.upkeep.release("pause")) == self.model.release()

    def expire(self, data: Data) -> None:
        expired = self.run(self.store.upkeep.expire())
        assert set(expired) == self.model.expire(self.clock.now())

    def time_passes(self, data: Data) -> None:
        self.clock.advance(data.draw(st.sampled_from((1.0, 15.0, 40.0, 70.0))))

    # -- what must always hold -------------------------------------------------------------------------------------

    @invariant()
    def the_collection_is_what_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        documents = self.run(self.store.connection.jobs.find_dict({"_id": {"$gte": MinKey()}}))
        assert documents.keys() == self.model.jobs.keys()
        for job_id, document in documents.items():
            _compare(document, self.model.jobs[job_id])
            if job_id in self.before:
                _check_move(self.before[job_id], document)
        _check_keys(documents)
        self.before = documents


def _compare(document: dict[str, Any], job: ModelJob) -> None:
    assert document["state"] == job.state
    assert ("ready" in document) == job.ready
    assert ("waiting_for" in document) == job.waiting_for
    numbers = {key: document[key] for key in ("rev", "token", "tries", "priority", "queue", "run_at")}
    assert numbers == {key: getattr(job, key) for key in numbers}
    assert (document.get("claim"), document.get("lease_until")) == (job.claim, job.lease_until)
    assert (document.get("cancel") is not None) == job.cancel
    assert bool(document.get("suspect")) == job.suspect
    assert document.get("result") == job.result
    assert document.get("start_by") == job.start_by
    assert ("finished_at" in document) == (job.state not in LIVE)
    assert [(e["n"], e["token"], e["outcome"]) for e in document.get("attempts", [])] == job.attempts[-20:]


def _check_move(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Independent of the model: what no single step may ever do to a document."""
    move = (before["state"], after["state"])
    assert move[0] == move[1] or move in LEGAL_MOVES
    assert after["token"] == before["token"] + (move == ("pending", "running"))
    assert after["rev"] >= before["rev"]
    if move[0] != move[1] or after["run_at"] != before["run_at"] or ("ready" in after) != ("ready" in before):
        assert after["rev"] > before["rev"]


def _check_keys(documents: dict[Any, dict[str, Any]]) -> None:
    live = [d["dedupe_key"] for d in documents.values() if d["state"] in LIVE and "dedupe_key" in d]
    assert len(live) == len(set(live))


@pytest.fixture
def machine(servers: Servers) -> Iterator[type[Jobs]]:
    """The machine on a store of its own, with an event loop of its own."""
    name = f"t_{secrets.token_hex(4)}"
    uri = servers.uri(name)
    loop = asyncio.new_event_loop()
    clock = ManualClock()
    connection = loop.run_until_complete(Connection.open(Settings(lease=LEASE), clock, uri=uri))
    Jobs.loop, Jobs.clock, Jobs.store = loop, clock, Store(connection)
    Jobs.renewals = Jobs.store.renewals()
    yield Jobs
    loop.run_until_complete(connection.client.drop_database(name))
    loop.run_until_complete(connection.close())
    loop.close()


@pytest.mark.timeout(600)  # to shrink an example takes its time
@pytest.mark.slow
def test_the_verbs_in_any_order_do_what_the_model_does(machine: type[Jobs]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
