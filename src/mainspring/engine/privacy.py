"""Redaction and encryption of jobs: in texts of handlers that are stored, in events, and in jobs that are shown.

One `Privacy` belongs to a Scheduler. It knows which fields are not shown (`redact`) and which jobs are encrypted.
All output of a job's handler passes through it: outcomes, log lines and notes on their way to the database
(`ClaimedJob.redactor`), jobs on their way to callbacks, to the log and to users (`shown`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.config.settings import Settings
from mainspring.engine.handler import Handler
from mainspring.engine.handlers import Handlers, LiveHandlers
from mainspring.model.explain.explanation import Explanation
from mainspring.model.jobs.job import Attempt, Job, Kept, Progress, Step
from mainspring.model.jobs.outcome import Cancelled, Completed, Failed, Outcome, Retried, Snoozed
from mainspring.model.jobs.reserved_names import FLOW_NAMES, HTTP
from mainspring.model.privacy.encrypted_values import Encrypt, both, check_encrypt, encrypt_like, parsed_data
from mainspring.model.privacy.redaction import (
    DEFAULT_REDACT,
    OF_WEBHOOKS,
    Redaction,
    Redactor,
    check_redact,
    sealed_values,
    without_sealed,
)
from mainspring.model.schedules.schedule import ScheduleFacts
from mainspring.store.connection import Document
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.privacy.cipher import RESULT, Cipher

if TYPE_CHECKING:
    from mainspring.engine.run.claimed_jobs import ClaimedJob

_IN_FLOWS = ("nodes.*.data", "nodes.*.over.items.*", "items.*", "data", "callbacks.*.data")
"""Where the roots of flows have the data of their nodes."""
S = TypeVar("S", bound=ScheduleFacts)


class Privacy:
    """The rules of redaction and encryption that a Scheduler's settings and handlers declare."""

    def __init__(self, handlers: Handlers, live: LiveHandlers, cipher: Cipher, settings: Settings) -> None:
        self._handlers = handlers
        self._live = live
        self.cipher = cipher
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        self._everywhere = Redaction(check_redact(settings.redact, DEFAULT_REDACT))
        # The default names cover the credentials of webhooks; with other names, these are redacted in addition.
        default = set(DEFAULT_REDACT) <= set(self._everywhere.patterns)
        self._of_webhooks = self._everywhere if default else self._everywhere | OF_WEBHOOKS
        self._encrypt = check_encrypt(settings.encrypt)
        self._own: dict[tuple[str, ...], Redaction] = {}

    # -- the rules -------------------------------------------------------------------------------------------------

    def redaction(self, name: str) -> Redaction:
        """The fields that are not shown of jobs of this name."""
        if name == HTTP:
            return self._of_webhooks
        if name in FLOW_NAMES:
            return self._of_flows()
        handler = self._handlers.own(name)
        if handler is None or not handler.redact:
            return self._everywhere
        own = self._own.get(handler.redact)
        if own is None:
            own = self._own[handler.redact] = self._everywhere | handler.redact
        return own

    def _of_flows(self) -> Redaction:
        """The fields that are not shown of the roots of flows, which have the data of any jobs in their own."""
        declared = [
            pattern for one in self._handlers.own_names if (own := self._handlers.own(one)) for pattern in own.redact
        ]
        patterns = [*self._everywhere.patterns, *OF_WEBHOOKS, *declared]
        names = tuple(pattern for pattern in patterns if "." not in pattern)
        paths = tuple(f"{place}.{pattern}" for pattern in patterns if "." in pattern for place in _IN_FLOWS)
        key = ("", *names, *paths)
        if key not in self._own:
            self._own[key] = self._everywhere | (*names, *paths)
        return self._own[key]

    def hidden_texts(self, name: str, data: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts in the data of a job of this name that are not shown."""
        return Redactor(self.redaction(name).hidden(data)).secrets

    def seal_like(self, stored: Document, data: Mapping[str, Any]) -> Document:
        """The fields of new data for a stored job: values that were encrypted before are encrypted again."""
        encrypt = self.encrypt(str(stored.get("name")), encrypt_like(stored.get("data")))
        document = {"_id": stored["_id"], "name": stored.get("name"), "data": data, "sealed": encrypt}
        if encrypt is None:
            return {"data": data}
        self.cipher.check(document)
        sealed = self.cipher.encrypted(document)
        return {"data": sealed["data"], "sealed": sealed.get("sealed")}

    def encrypt(self, name: str, own: Encrypt | None = None) -> Encrypt | None:
        """The parts of the data of jobs of this name to encrypt: all that the job, its handler or the settings name."""
        declared = self._live.defaults(name)
        return both(both(own, None if declared is None else declared.encrypt), self._encrypt)

    def must_seal(self, job: StoredJob, handler: Handler | None) -> bool:
        """Whether the results of a job have to be encrypted."""
        declared = handler is not None and handler.encrypt is not None
        everything = self._encrypt is not None and self._encrypt.all
        return declared or everything or bool(job.key_ids)

    def missing_keys(self, job: StoredJob, handler: Handler | None) -> tuple[str, ...] | None:
        """The ids of the keys that a job needs and this process lacks; empty if it needs any key and there is none.
        None if no key is missing."""
        key_ids = job.key_ids
        if not key_ids and not self.must_seal(job, handler):
            return None
        missing = tuple(sorted(key_id for key_id in key_ids if self.cipher.ring.get(key_id) is None))
        return missing if missing or not self.cipher.ring.ids else None

    # -- an attempt ------------------------------------------------------------------------------------------------

    def open(self, claimed: ClaimedJob) -> Sequence[Any]:
        """Decrypt a claimed job for its handler, and set up its redaction; return the hidden values. Raises KeyMissing
        and Undecryptable."""
        job = claimed.job
        hidden: list[Any] = []
        if self.must_seal(job, claimed.handler):
            claimed.encrypt_with(self.cipher)
            plain = self.cipher.decrypt_data(job.document)
            if job.key_ids:
                hidden += sealed_values(parsed_data(job.data), plain)
            # Also if no value is encrypted yet: results of steps will be, and the handler gets them in plain text.
            claimed.show(plain, self.cipher.decrypt_steps(job.document))
        return self.redact(claimed, hidden)

    def redact(self, claimed: ClaimedJob, hidden: Sequence[Any]) -> Sequence[Any]:
        """Redact these values, and the values under redacted names in the data that the handler sees; return all."""
        redaction = self.redaction(claimed.job.name)
        found = redaction.hidden(claimed.shown.data) if redaction else []
        if hidden or found:
            hidden = [*hidden, *found]
            claimed.redact_with(Redactor(hidden))
        return hidden

    # -- showing ---------------------------------------------------------------------------------------------------

    def shown(self, job: Job) -> Job:
        """A job as it may be shown: encrypted and redacted values are replaced, everywhere."""
        redaction = self.redaction(job.name)
        kept = job.kept or Kept(job.data, job.result, job.steps)
        redactor = self._veil_of(job, kept, redaction)
        data, result = _fit(kept.data, redaction), _fit(kept.result, redaction)
        steps = tuple(replace(step, result=_fit(step.result, redaction)) for step in kept.steps)
        if not redactor:
            return job if _is_same(job, data, result, steps) else replace(job, data=data, result=result, steps=steps)
        return replace(
            job,
            data=data,
            result=result,
            steps=steps,
            error=None if job.error is None else redactor.error(job.error),
            attempts=tuple(_veiled(redactor, attempt) for attempt in job.attempts),
            log=tuple(redactor.text(line) for line in job.log),
            progress=_veiled_progress(redactor, job.progress),
            waiting_for=None
            if job.waiting_for is None
            else replace(job.waiting_for, note=redactor.text(job.waiting_for.note)),
            kept=None if job.kept is None else Kept(data, result, steps, job.key_ids),
        )

    def _veil_of(self, job: Job, kept: Kept, redaction: Redaction) -> Redactor:
        """The redactor of a job's hidden values, as far as this process knows them."""
        secrets = redaction.hidden(job.data)
        if job.kept is not None:
            secrets += sealed_values(kept.data, job.data)
        return Redactor(secrets)

    def explained(self, explanation: Explanation) -> Explanation:
        """An explanation as it may be shown; keys of limits may have hidden values."""
        job = self.shown(explanation.job)
        redactor = self._veil_of(explanation.job, explanation.job.kept or Kept(None), self.redaction(job.name))
        if not redactor:
            return explanation if job is explanation.job else replace(explanation, job=job)
        gates = [
            replace(gate, text=redactor.text(gate.text), data=redactor.value(gate.data)) for gate in explanation.gates
        ]
        return Explanation.of(job, explanation.at, gates)

    def shown_schedule(self, schedule: S) -> S:
        """A schedule as it may be shown: encrypted and redacted values of its data are replaced."""
        data = _fit(schedule.data if schedule.kept is None else schedule.kept, self.redaction(schedule.name))
        return schedule if data is schedule.data else replace(schedule, data=data, kept=None)

    def announced(self, payload: Any) -> Any:
        """A payload as callbacks receive it: jobs and schedules as they may be shown, other values unchanged."""
        if isinstance(payload, Job):
            return self.shown(payload)
        if isinstance(payload, ScheduleFacts):
            return self.shown_schedule(payload)
        return [self.announced(one) for one in payload] if isinstance(payload, list) else payload


def conceal(claimed: ClaimedJob, ending: Outcome) -> Outcome:
    """An outcome as it may be stored and announced: hidden values redacted, its result encrypted if it has to be."""
    redactor = claimed.redactor
    if isinstance(ending, Completed):
        if claimed.cipher is None:
            return ending
        try:
            return replace(ending, result=sealed_result(claimed, ending.result))
        except Exception as error:  # the handler has completed, even if the key is gone meanwhile
            note = f"The result could not be encrypted ({type(error).__name__}) and was not kept."
            return replace(ending, result=None, note=note)
    if not redactor:
        return ending
    if isinstance(ending, Failed | Retried):
        return replace(ending, error=redactor.error(ending.error))
    if isinstance(ending, Cancelled | Snoozed):
        return replace(ending, reason=redactor.text(ending.reason))
    return ending


def sealed_result(claimed: ClaimedJob, result: Any) -> Any:
    """The result of a job, encrypted if the job is. None need not be encrypted."""
    if claimed.cipher is None or result is None:
        return result
    return claimed.cipher.encrypt(claimed.job.document, (RESULT,), result)


def _fit(value: Any, redaction: Redaction) -> Any:
    return redaction.shown(without_sealed(value))


def _is_same(job: Job, data: Any, result: Any, steps: tuple[Step, ...]) -> bool:
    same = data is job.data and result is job.result
    return same and all(one.result is other.result for one, other in zip(steps, job.steps, strict=False))


def _veiled(redactor: Redactor, attempt: Attempt) -> Attempt:
    error = None if attempt.error is None else redactor.error(attempt.error)
    return replace(attempt, error=error, log=tuple(redactor.text(line) for line in attempt.log))


def _veiled_progress(redactor: Redactor, progress: Progress | None) -> Progress | None:
    if progress is None or progress.note is None:
        return progress
    return replace(progress, note=redactor.text(progress.note))
