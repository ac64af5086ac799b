"""The claimed jobs of this worker: each from its claim until its end is stored, with an explicit state.

    CLAIMED ──► WAITING ──► RUNNING ──► ENDING ──► ENDED
     │   ▲         │                      ▲
     ▼   │         └──────────────────────┤  given back before it was started
    PARKED ───────────────────────────────┘

Only the methods of `ClaimedJob` change one. The event loop makes the transitions, and each method checks that its own
is allowed. The heartbeat's threads renew the lease and ask a job to stop; the methods that they share with the event
loop, on the lease, the slots that bound it and the reasons to stop, hold the job's lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from mainspring.clock import monotonic
from mainspring.engine.flows.shared_reads import SharedRead
from mainspring.engine.handler import Handler
from mainspring.engine.limits.slot_shares import slots_until
from mainspring.engine.run.attempt_notes import AttemptNotes
from mainspring.engine.run.stacks import HandlerPlace
from mainspring.model.flows.before import Predecessor
from mainspring.model.jobs.guarantee import AT_LEAST_ONCE
from mainspring.model.jobs.outcome import Outcome
from mainspring.model.limits.controls import Probe
from mainspring.model.limits.limits import Gate, SequenceGate
from mainspring.model.privacy.redaction import NO_REDACTION, Redactor
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.jobs.end_fields import Finish
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.privacy.cipher import Cipher


class ClaimState(Enum):
    """The states of a claimed job."""

    CLAIMED = "claimed"
    """The job has its slots of limits, and is about to be placed."""
    PARKED = "parked"
    """The job waits for a slot of a limit that this worker has taken."""
    WAITING = "waiting"
    """The job waits for one of this worker's own slots."""
    RUNNING = "running"
    """The job has a slot, and its task runs the attempt."""
    ENDING = "ending"
    """The outcome is known and is being stored. The lease is still renewed."""
    ENDED = "ended"
    """The end is stored, or another worker is to store it."""


class StopReason(Enum):
    """A reason why a handler is to stop. There may be several."""

    CANCELLED = "cancelled"
    LOST = "lost"
    """The claim is lost, or may be."""
    RELEASED = "released"
    """The worker stops."""
    TIMED_OUT = "timed out"


class LeasePhase(Enum):
    """Whether the heartbeat renews the claim."""

    RENEWED = "renewed"
    FROZEN = "frozen"
    """A transaction is under way that will write the document: a renewal would conflict with it."""
    COMMITTING = "committing"
    """The transaction writes the job's end and commits. It finds out whether the claim held: nothing is fenced."""
    COMMITTED = "committed"
    """The transaction has ended the job. There is no claim any more: the handler goes on while it has its slots."""


class IllegalTransition(AssertionError):
    """A claimed job was to enter a state that cannot follow its current one."""


class Killable(Protocol):
    """The process that runs a handler."""

    def stack(self) -> str:
        """The stack of the handler, as text. Safe from any thread; it takes two seconds at most."""

    def kill(self) -> None:
        """End the process for sure. Safe from any thread."""


_LOCK = threading.Lock()
"""Guards the leases of all claimed jobs: it is held for a few assignments at a time, and a lock for each job costs more
than to wait for this one."""
_AT_END = (SequenceGate, Probe)
"""The rules whose slots are kept until the end is stored, or its outcome counted."""
_NONE: frozenset[StopReason] = frozenset()
_NOT_ENDED = (ClaimState.RUNNING, ClaimState.WAITING, ClaimState.CLAIMED, ClaimState.PARKED)


@dataclass(slots=True, eq=False)
class ClaimedJob:
    """One claimed job. Other modules read its fields; only its own methods write them."""

    job: StoredJob
    """The job as it is stored."""
    claim: str
    handler: Handler
    renewed_at: float
    """When the claim was made or last renewed (monotonic, taken before the request was sent)."""
    valid_until: float
    """The instant until which the claim surely holds: the lease less the fence margin, and no longer than its slots."""
    guarantee: str = AT_LEAST_ONCE
    gates: list[Gate] = field(default_factory=list)
    """The gates that the job has passed, and whose slots it has."""
    ahead: bool = False
    """The job was claimed ahead, and the database does not know yet that it has been started."""
    state: ClaimState = ClaimState.CLAIMED
    awaits: Sequence[Gate] = ()
    """The gates that the job waits for while it is parked."""
    stops: frozenset[StopReason] = _NONE
    cancel_reason: str = ""
    phase: LeasePhase = LeasePhase.RENEWED
    frozen_at: float | None = None
    """When its transaction began (monotonic)."""
    renew_until: float = float("inf")
    """From this instant on the claim is not renewed: the handler should have stopped long ago."""
    predecessors_read: SharedRead | None = None
    """Of a node: the read of its predecessors, which it shares with other nodes of its claim."""
    task: asyncio.Task[Outcome] | None = None
    process: Killable | None = None
    """The process of its own that runs the handler, if there is one."""
    place: HandlerPlace | None = None
    """Where the handler runs, for its stack, if not in the task of the attempt itself."""
    started: float | None = None
    started_at: datetime | None = None
    took: float | None = None
    """The seconds that the handler took."""
    opened: StoredJob | None = None
    """The job as its handler sees it, if that differs from the stored one."""
    cipher: Cipher | None = None
    """Encrypts the results of the handler, if the job is encrypted."""
    redactor: Redactor = NO_REDACTION
    """Keeps hidden values of the data out of the texts that are stored and announced of the attempt."""
    spawned: bool = False
    """Whether its handler has made children."""
    notes: AttemptNotes = field(default_factory=AttemptNotes)
    id: DocumentId = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.job.id

    @property
    def token(self) -> int:
        return self.job.token

    # -- transitions, on the event loop ----------------------------------------------------------------------------

    def park(self, awaits: list[Gate]) -> None:
        """Let the job wait for slots of limits."""
        self._enter(ClaimState.PARKED, ClaimState.CLAIMED)
        self.awaits = awaits

    def unpark(self, gates: list[Gate]) -> None:
        """Give the job the slots that it waited for."""
        self._enter(ClaimState.CLAIMED, ClaimState.PARKED)
        with _LOCK:
            self.awaits, self.gates = (), gates
            self.valid_until = min(self.valid_until, slots_until(gates))

    def wait(self) -> None:
        """Let the job wait for one of the worker's own slots."""
        self._enter(ClaimState.WAITING, ClaimState.CLAIMED)

    def run(self, task: asyncio.Task[Outcome]) -> None:
        """Give the job a slot, and the task that runs it."""
        self._enter(ClaimState.RUNNING, ClaimState.WAITING)
        self.task = task

    def end(self) -> None:
        """Note that the outcome is known; the job may not have been started at all."""
        self._enter(ClaimState.ENDING, *_NOT_ENDED)

    def ended(self) -> None:
        """Note that the end is stored."""
        self._enter(ClaimState.ENDED, ClaimState.ENDING)

    def _enter(self, state: ClaimState, *after: ClaimState) -> None:
        if self.state not in after:
            raise IllegalTransition(f"Job {self.id} is {self.state.value} and cannot become {state.value}.")
        self.state = state

    # -- the attempt -----------------------------------------------------------------------------------------------

    def begin(self, started: float, started_at: datetime) -> None:
        """Note that the handler is about to be called."""
        self.started, self.started_at = started, started_at

    def renew_for(self, seconds: float) -> None:
        """Renew the claim no longer than so many seconds from the start of the handler."""
        assert self.started is not None
        self.renew_until = self.started + seconds

    def start_noted(self) -> None:
        """Note that the database knows that the job has been started."""
        self.ahead = False

    def attempt_over(self) -> None:
        """Note how long the handler took, since its task has ended."""
        if self.started is not None:
            self.took = monotonic() - self.started

    def use_process(self, process: Killable | None) -> None:
        """Set the process that runs the handler from now on; None if it has none of its own."""
        self.process = process

    def runs_in(self, place: HandlerPlace) -> None:
        """Note where the handler runs."""
        self.place = place

    def stack(self, loop_thread: int) -> str | None:
        """The stack of the running handler as text, redacted; None if it does not run. Called in any thread but that of
        the event loop, which is `loop_thread`."""
        process, place, task = self.process, self.place, self.task  # read once: the event loop takes them away
        if self.state is not ClaimState.RUNNING or self.started is None or task is None:
            return None
        if process is not None:
            return self.redactor.text(process.stack())
        if place is None:
            place = HandlerPlace(task, task.get_loop(), loop_thread)
        return self.redactor.text(place.stack())

    def finish(self, worker: str, started: datetime, ended: datetime, outcome: Outcome) -> Finish:
        """The end of the attempt, as it is to be stored."""
        job, notes = self.job, self.notes
        return Finish(
            job.id,
            job.token,
            job.tries,
            worker,
            started,
            ended,
            outcome,
            tuple(notes.log),
            notes.new_progress,
            job.name,
            notes.log_cut,
        )

    # -- the job as its handler sees it ----------------------------------------------------------------------------

    @property
    def shown(self) -> StoredJob:
        """The job as its handler sees it."""
        return self.job if self.opened is None else self.opened

    def show(self, data: Mapping[str, Any], steps: list[Document] | None = None) -> None:
        """Show the handler other data than the stored data."""
        self.opened = self.shown.shown_with(data, steps)

    def show_predecessors(self, predecessors: Mapping[str, Predecessor]) -> None:
        """Show the handler the nodes that its job came after."""
        self.opened = self.shown.shown_after(predecessors)

    def encrypt_with(self, cipher: Cipher) -> None:
        """Encrypt the results of the handler with this cipher."""
        self.cipher = cipher

    def redact_with(self, redactor: Redactor) -> None:
        """Redact the texts of the attempt with this redactor."""
        self.redactor = redactor

    def step_kept(self, entry: Document) -> None:
        """Add a stored step to the stored job. The handler sees its plain result, other readers its stored form."""
        if self.opened is not None:
            self.job.add_step(entry)

    def made_children(self) -> None:
        """Note that the handler makes children."""
        self.spawned = True

    # -- slots of limits -------------------------------------------------------------------------------------------

    def give_up_slots(self) -> list[Gate]:
        """Give up the slots that are free as soon as the handler has ended, before the end is stored."""
        return self._give_up(lambda rule: not isinstance(rule, _AT_END)) if self.gates else []

    def give_up_probes(self) -> list[Gate]:
        """Give up the slots of probes, which are free once their outcome has been counted."""
        return self._give_up(lambda rule: isinstance(rule, Probe)) if self.gates else []

    def give_up_gates(self) -> list[Gate]:
        """Give up the remaining gates after the end is stored: the next job of a sequence is read from stored jobs."""
        gates, self.gates = self.gates, []
        return gates

    def _give_up(self, free: Callable[[Any], bool]) -> list[Gate]:
        given = [gate for gate in self.gates if free(gate.rule)]
        if given:
            self.gates = [gate for gate in self.gates if not free(gate.rule)]
        return given

    # -- the lease, also in the heartbeat's threads ----------------------------------------------------------------

    def renewed(self, asked: float, until: float) -> None:
        """Note that the claim was renewed by a request of the instant `asked`: it holds to `until`, if its slots do."""
        with _LOCK:
            self.renewed_at = asked
            self.valid_until = self._bounded(until)

    def slots_renewed(self, end: Callable[[float], float]) -> None:
        """Prolong the claim with its slots, which were renewed; `end` returns until when a claim holds. A claim that is
        over stays so."""
        with _LOCK:
            if StopReason.LOST not in self.stops and monotonic() < self.valid_until:
                self.valid_until = self._bounded(end(self.renewed_at))

    def _bounded(self, until: float) -> float:
        """Until when a claim holds whose lease ends at `until`. After the commit only its slots can run out."""
        slots = slots_until(self.gates)
        return slots if self.phase is LeasePhase.COMMITTED else min(until, slots)

    @property
    def frozen(self) -> bool:
        """Whether nothing but the job's transaction writes its document: the transaction is under way, or over."""
        return self.phase is not LeasePhase.RENEWED

    @property
    def in_transaction(self) -> bool:
        """Whether the job's transaction is under way."""
        return self.phase in (LeasePhase.FROZEN, LeasePhase.COMMITTING)

    @property
    def committing(self) -> bool:
        return self.phase is LeasePhase.COMMITTING

    @property
    def ends_itself(self) -> bool:
        """Whether the job's own transaction ends it, or has done so: a job that is gone then is not lost."""
        return self.phase in (LeasePhase.COMMITTING, LeasePhase.COMMITTED)

    def freeze(self) -> float:
        """Note that the job's transaction begins; return the instant (monotonic)."""
        with _LOCK:
            self.phase = LeasePhase.FROZEN
            self.frozen_at = now = monotonic()
        return now

    def commit(self) -> None:
        """Note that the job's transaction commits, or is known to have committed."""
        with _LOCK:
            if self.phase is LeasePhase.FROZEN:
                self.phase = LeasePhase.COMMITTING

    def thaw(self, *, committed: bool) -> None:
        """Note that the job's transaction is over; if it has committed, it has ended the job."""
        with _LOCK:
            self.phase, self.frozen_at = LeasePhase.COMMITTED if committed else LeasePhase.RENEWED, None
            self.valid_until = self._bounded(self.valid_until)

    # -- stopping, also in the heartbeat's threads -----------------------------------------------------------------

    def ask_to_stop(self, reason: StopReason, note: str = "") -> None:
        """Tell the handler to stop. A process of its own is killed; `interrupt` does the rest on the event loop."""
        with _LOCK:
            if reason is StopReason.CANCELLED:
                self.cancel_reason = note
            self.stops |= {reason}
        process = self.process  # read once: the event loop takes it away when the process has ended
        if process is not None:
            process.kill()

    def interrupt(self) -> None:
        """Cancel the handler, on the event loop; a process of its own is killed as well."""
        process = self.process
        if process is not None:
            process.kill()
        if self.task is not None and not self.task.done():
            self.task.cancel()  # without waiting for the message that the process is dead

    @property
    def stopping(self) -> bool:
        """Whether the handler should stop."""
        return bool(self.stops)

    @property
    def lost(self) -> bool:
        return bool(self.stops) and StopReason.LOST in self.stops

    @property
    def cancelled(self) -> bool:
        return bool(self.stops) and StopReason.CANCELLED in self.stops

    @property
    def only_cancelled(self) -> bool:
        """Whether the handler should stop because its job was cancelled, and for no reason that ends its time."""
        return self.stops == {StopReason.CANCELLED}

    @property
    def released(self) -> bool:
        return bool(self.stops) and StopReason.RELEASED in self.stops

    @property
    def timed_out(self) -> bool:
        return StopReason.TIMED_OUT in self.stops


class ClaimedJobs:
    """All claimed jobs of this worker, by id. The heartbeat's threads read them."""

    def __init__(self) -> None:
        self._by_id: dict[DocumentId, ClaimedJob] = {}
        self._holding_back: Counter[str] = Counter()
        """The waits of other jobs that some of these hold back, and how many do."""

    def add(self, claimed: ClaimedJob) -> None:
        """Add a claimed job. An older claim of it that this worker still acts on is lost: its handler is stopped."""
        before = self._by_id.get(claimed.id)
        self._by_id[claimed.id] = claimed
        if before is None:
            self._holding_back.update(claimed.job.before)
        elif before is not claimed:
            before.ask_to_stop(StopReason.LOST)
            before.interrupt()

    def remove(self, claimed: ClaimedJob) -> None:
        if self._by_id.get(claimed.id) is not claimed:
            return
        del self._by_id[claimed.id]
        for wait in claimed.job.before:
            self._holding_back[wait] -= 1
            if not self._holding_back[wait]:
                del self._holding_back[wait]

    def holds_back(self, wait: str) -> bool:
        """Whether one of these jobs, which are live, holds back a wait."""
        return wait in self._holding_back

    def get(self, job_id: DocumentId) -> ClaimedJob | None:
        return self._by_id.get(job_id)

    def all(self) -> list[ClaimedJob]:
        return list(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)
