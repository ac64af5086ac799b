"""What of jobs may be seen: by people, by those who listen for events, and in what is stored of a handler's words.

One `Secrecy` belongs to a Scheduler. It knows which fields are not shown (`redact`) and which jobs are encrypted.
Everything that leaves a job's handler passes through it: endings, log lines and notes on their way to the database
(`Holding.veil`), jobs on their way to callbacks, to the log and to people (`shown`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mainspring.config import Settings
from mainspring.engine.holdings import Holding
from mainspring.handlers import Handler, Handlers
from mainspring.model.ending import Cancelled, Completed, Ending, Failed, Retried, Snoozed
from mainspring.model.explanation import Explanation
from mainspring.model.job import Attempt, Job, Kept, Progress, Step
from mainspring.model.redaction import (
    DEFAULT_REDACT,
    Redaction,
    Veil,
    check_redact,
    sealed_values,
    without_sealed,
)
from mainspring.model.schedule import ScheduleFacts
from mainspring.model.sealing import Encrypt, both, check_encrypt, parsed_data
from mainspring.store.connection import Document
from mainspring.store.sealing import RESULT, Sealer

S = TypeVar("S", bound=ScheduleFacts)


class Secrecy:
    """What a Scheduler's settings and handlers say of what may be seen."""

    def __init__(self, handlers: Handlers, sealer: Sealer, settings: Settings) -> None:
        self._handlers = handlers
        self.sealer = sealer
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        self._everywhere = Redaction(check_redact(settings.redact, DEFAULT_REDACT))
        self._encrypt = check_encrypt(settings.encrypt)
        self._own: dict[tuple[str, ...], Redaction] = {}

    # -- what is asked for -----------------------------------------------------------------------------------------

    def redaction(self, name: str) -> Redaction:
        """The fields that are not shown of jobs of this name."""
        handler = self._handlers.own(name)
        if handler is None or not handler.redact:
            return self._everywhere
        own = self._own.get(handler.redact)
        if own is None:
            own = self._own[handler.redact] = self._everywhere | handler.redact
        return own

    def hidden_texts(self, name: str, data: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts in the data of a job of this name that are not shown."""
        return Veil(self.redaction(name).hidden(data)).secrets

    def encrypt(self, name: str, own: Encrypt | None = None) -> Encrypt | None:
        """What is sealed of the data of jobs of this name: all that anybody asks for."""
        handler = self._handlers.own(name)
        return both(both(own, None if handler is None else handler.encrypt), self._encrypt)

    def must_seal(self, document: Mapping[str, Any], handler: Handler | None) -> bool:
        """Whether what a job's handler finds out has to be sealed."""
        declared = handler is not None and handler.encrypt is not None
        everything = self._encrypt is not None and self._encrypt.all
        return declared or everything or bool(document.get("sealed"))

    def missing_keys(self, document: Mapping[str, Any], handler: Handler | None) -> tuple[str, ...] | None:
        """The keys that a job needs and that are not here; empty where it needs any and there is none."""
        kids: list[str] = document.get("sealed") or []
        if not kids and not self.must_seal(document, handler):
            return None
        missing = tuple(sorted(kid for kid in kids if self.sealer.ring.get(kid) is None))
        return missing if missing or not self.sealer.ring.ids else None

    # -- an attempt ------------------------------------------------------------------------------------------------

    def open(self, holding: Holding) -> None:
        """Open what is sealed in a claimed job, and learn what must not be seen. Raises KeyMissing and Unopenable."""
        document = holding.document
        holding.sealer = self.sealer if self.must_seal(document, holding.handler) else None
        secrets: list[Any] = []
        if document.get("sealed"):
            plain = self.sealer.open_data(document)
            secrets += sealed_values(parsed_data(document.get("data")), plain)
            if document.get("steps"):
                holding.stored_steps = list(document["steps"])
                document["steps"] = [self._opened_step(document, entry) for entry in document["steps"]]
            holding.show(plain)
        self._veil(holding, secrets)

    def look_again(self, holding: Holding) -> None:
        """The handler is shown other data than what was opened: what is under names that are not shown is new, too."""
        if holding.stored is not None:
            self._veil(holding, holding.secrets)

    def _veil(self, holding: Holding, secrets: Sequence[Any]) -> None:
        redaction = self.redaction(holding.document["name"])
        found = redaction.hidden(holding.document.get("data")) if redaction else []
        if secrets or found:
            holding.secrets = [*secrets, *found]
            holding.veil = Veil(holding.secrets)

    def _opened_step(self, document: Document, entry: Document) -> Document:
        name = str(entry.get("name", ""))
        return {**entry, "result": self.sealer.open_step(document, name, entry.get("result"))}

    # -- showing ---------------------------------------------------------------------------------------------------

    def shown(self, job: Job) -> Job:
        """A job as it may be shown: what is encrypted and what is redacted is replaced, everywhere."""
        redaction = self.redaction(job.name)
        kept = job.kept or Kept(job.data, job.result, job.steps)
        veil = self._veil_of(job, kept, redaction)
        data, result = _fit(kept.data, redaction), _fit(kept.result, redaction)
        steps = tuple(replace(step, result=_fit(step.result, redaction)) for step in kept.steps)
        if not veil:
            return job if _is_same(job, data, result, steps) else replace(job, data=data, result=result, steps=steps)
        return replace(
            job,
            data=data,
            result=result,
            steps=steps,
            error=None if job.error is None else veil.error(job.error),
            attempts=tuple(_veiled(veil, attempt) for attempt in job.attempts),
            log=tuple(veil.text(line) for line in job.log),
            progress=_veiled_progress(veil, job.progress),
            held=None if job.held is None else replace(job.held, note=veil.text(job.held.note)),
            kept=None if job.kept is None else Kept(data, result, steps, job.key_ids),
        )

    def _veil_of(self, job: Job, kept: Kept, redaction: Redaction) -> Veil:
        """The values that must not be seen of a job, as far as they are known here."""
        secrets = redaction.hidden(job.data)
        if job.kept is not None:
            secrets += sealed_values(kept.data, job.data)
        return Veil(secrets)

    def explained(self, explanation: Explanation) -> Explanation:
        """An explanation as it may be shown; keys of limits may have values that are not."""
        job = self.shown(explanation.job)
        veil = self._veil_of(explanation.job, explanation.job.kept or Kept(None), self.redaction(job.name))
        if not veil:
            return explanation if job is explanation.job else replace(explanation, job=job)
        gates = [replace(gate, text=veil.text(gate.text), data=veil.value(gate.data)) for gate in explanation.gates]
        return Explanation.of(job, explanation.at, gates)

    def shown_schedule(self, schedule: S) -> S:
        """A schedule as it may be shown: what is encrypted and what is redacted of its data is replaced."""
        data = _fit(schedule.data if schedule.kept is None else schedule.kept, self.redaction(schedule.name))
        return schedule if data is schedule.data else replace(schedule, data=data, kept=None)

    def announced(self, payload: Any) -> Any:
        """What callbacks are given: jobs and schedules as they may be shown, anything else as it is."""
        if isinstance(payload, Job):
            return self.shown(payload)
        if isinstance(payload, ScheduleFacts):
            return self.shown_schedule(payload)
        return [self.announced(one) for one in payload] if isinstance(payload, list) else payload


def conceal(holding: Holding, ending: Ending) -> Ending:
    """An ending as it may be stored and told: without what must not be seen, its result sealed where it has to be."""
    veil = holding.veil
    if isinstance(ending, Completed):
        return replace(ending, result=sealed_result(holding, ending.result))
    if not veil:
        return ending
    if isinstance(ending, Failed | Retried):
        return replace(ending, error=veil.error(ending.error))
    if isinstance(ending, Cancelled | Snoozed):
        return replace(ending, reason=veil.text(ending.reason))
    return ending


def sealed_result(holding: Holding, result: Any) -> Any:
    """What a job's handler returned, sealed where the job is encrypted. Nothing is as good as sealed."""
    if holding.sealer is None or result is None:
        return result
    return holding.sealer.seal(holding.document, (RESULT,), result)


def _fit(value: Any, redaction: Redaction) -> Any:
    return redaction.shown(without_sealed(value))


def _is_same(job: Job, data: Any, result: Any, steps: tuple[Step, ...]) -> bool:
    same = data is job.data and result is job.result
    return same and all(one.result is other.result for one, other in zip(steps, job.steps, strict=False))


def _veiled(veil: Veil, attempt: Attempt) -> Attempt:
    error = None if attempt.error is None else veil.error(attempt.error)
    return replace(attempt, error=error, log=tuple(veil.text(line) for line in attempt.log))


def _veiled_progress(veil: Veil, progress: Progress | None) -> Progress | None:
    if progress is None or progress.note is None:
        return progress
    return replace(progress, note=veil.text(progress.note))
