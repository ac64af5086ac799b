"""The gates of workers: a worker that serves the queue, has the handler and the key, and has a free slot. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.model.explain.explanation import (
    HANDLER,
    KEY,
    SLOTS,
    VERSION,
    WORKER,
    ExplainedGate,
    are,
    listed,
    plural,
    sentence,
    span,
)
from mainspring.model.explain.facts import ExplainFacts
from mainspring.model.fields import Fields
from mainspring.model.jobs.payload_versions import FIRST_VERSION
from mainspring.model.jobs.reserved_names import cure_for
from mainspring.model.workers import WorkerStatus
from mainspring.spelling import did_you_mean

_SHOWN = 10
_BY_HANDLER, _BY_VERSION, _BY_KEY = "handler", "version", "key"


def worker_gate(facts: ExplainFacts) -> ExplainedGate:
    """Whether a live worker serves its queue."""
    queue, live = facts.job.queue, facts.workers
    serving = [worker for worker in live if worker.serves(queue)]
    shown = [_about(worker) for worker in (serving or list(live))[:_SHOWN]]
    data = {"queue": queue, "live": len(live), "serving": len(serving), "workers": shown}
    if serving:
        text = f"{plural(len(serving), 'live worker')} {_serve(len(serving))} the queue {queue!r}."
        return ExplainedGate(WORKER, True, text, data)
    if not live:
        return ExplainedGate(WORKER, False, "No worker is alive.", data)
    queues = sorted({name for worker in live for name in worker.queues or ()})
    text = f"No live worker serves the queue {queue!r}; {plural(len(live), 'worker')} {_serve(len(live))} others"
    return ExplainedGate(WORKER, False, f"{text}: {listed(queues)}." if queues else f"{text}.", data)


def handler_gate(facts: ExplainFacts) -> ExplainedGate:
    """Whether a worker of its queue has a handler for its name; where no worker serves the queue, whether any has."""
    job = facts.job
    serving = [worker for worker in facts.workers if worker.serves(job.queue)]
    able = [worker for worker in serving if worker.handles(job.name)]
    elsewhere = [worker for worker in facts.workers if worker.handles(job.name) and worker not in able]
    data = {
        "name": job.name,
        "able": [_about(worker) for worker in able[:_SHOWN]],
        "elsewhere": [_about(worker) for worker in elsewhere[:_SHOWN]],
    }
    if job.waiting_for is not None and job.waiting_for.by == _BY_HANDLER and facts.line is None:
        return _held_for_handler(facts, able, data)
    if able:
        return ExplainedGate(HANDLER, True, _have(job.name, able), data)
    if not serving and elsewhere:
        return ExplainedGate(HANDLER, True, _have(job.name, elsewhere), data)
    return ExplainedGate(HANDLER, False, _nobody(facts, serving, elsewhere), data)


def version_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """Whether a worker has the handler in a version that takes the job's data; only jobs with data above the first
    version have this gate."""
    job = facts.job
    if job.data_version <= FIRST_VERSION:
        return None
    having = [worker for worker in facts.workers if worker.serves(job.queue) and worker.handles(job.name)]
    fit = [worker for worker in having if worker.takes(job.name, job.data_version)]
    data: Fields = {
        "name": job.name,
        "version": job.data_version,
        "workers": [
            {"worker": one.id, "version": one.versions.get(job.name, FIRST_VERSION)} for one in having[:_SHOWN]
        ],
    }
    held = job.waiting_for is not None and job.waiting_for.by == _BY_VERSION and facts.line is None
    if held:
        data |= {"held_since": job.waiting_for.since, "note": job.waiting_for.note}  # type: ignore[union-attr]
    text = _versions(job.name, job.data_version, having, fit)
    if fit and held:
        text += " It was held when no worker could run it, and is put back within about 15 s."
    return ExplainedGate(VERSION, bool(fit or not having) and not held, text, data)


def _versions(name: str, version: int, having: list[WorkerStatus], fit: list[WorkerStatus]) -> str:
    """The version that the data needs, and the versions that workers have."""
    needed = f"Its data is of version {version}"
    if fit:
        who = f"worker {fit[0].id} takes" if len(fit) == 1 else f"{len(fit)} live workers take"
        return f"{needed}, which {who}."
    if not having:
        return f"{needed}."
    has = sorted({worker.versions.get(name, FIRST_VERSION) for worker in having})
    who = f"worker {having[0].id} has" if len(having) == 1 else f"the {len(having)} live workers have"
    return f"{needed}, and {who} version {listed([str(one) for one in has])} of the handler for {name!r}."


def _held_for_handler(facts: ExplainFacts, able: list[WorkerStatus], data: Fields) -> ExplainedGate:
    """The gate of a job that was held for want of a handler; a worker that has one now releases it."""
    held = facts.job.waiting_for
    assert held is not None
    data |= {"held_since": held.since, "note": held.note}
    if not able:
        since = "" if held.since is None else f" It has been held for {span(facts.now - held.since)}."
        return ExplainedGate(HANDLER, False, sentence(held.note) + _meant(facts) + since, data)
    text = f"{_have(facts.job.name, able)} It was held when no worker had one, and is put back within about 15 s."
    return ExplainedGate(HANDLER, False, text, data)


def _nobody(facts: ExplainFacts, serving: list[WorkerStatus], elsewhere: list[WorkerStatus]) -> str:
    name, queue = facts.job.name, facts.job.queue
    cure = f" {cure_for(name)}" if cure_for(name) else _meant(facts)
    if not serving:
        return f"No live worker has a handler for {name!r}.{cure}"
    text = f"No live worker that serves the queue {queue!r} has a handler for {name!r}."
    if elsewhere:
        queues = sorted({one for worker in elsewhere for one in worker.queues or ()})
        others = listed(queues) if queues else "other queues"
        text += f" {_have(name, elsewhere).removesuffix('.')}, but {_serve(len(elsewhere))} {others}."
    return text + cure


def _meant(facts: ExplainFacts) -> str:
    """A suggestion, where a live worker has a handler for a name that is close to the job's."""
    return did_you_mean(facts.job.name, {name for one in facts.workers for name in one.handlers or ()})


def _have(name: str, workers: list[WorkerStatus]) -> str:
    versions = sorted({worker.version for worker in workers if worker.version})
    told = f" (version {listed(versions)})" if versions else ""
    who = f"Worker {workers[0].id}" if len(workers) == 1 else plural(len(workers), "live worker")
    return f"{who}{told} {'has' if len(workers) == 1 else 'have'} a handler for {name!r}."


def key_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """Whether a worker that has the handler has the keys that the job is encrypted with; only jobs with encrypted
    values, or whose results are to be encrypted, have this gate."""
    job = facts.job
    held = job.waiting_for is not None and job.waiting_for.by == _BY_KEY and facts.line is None
    if not job.key_ids and not held:
        return None
    having = [worker for worker in facts.workers if worker.serves(job.queue) and worker.handles(job.name)]
    fit = [worker for worker in having if worker.keys and worker.keys.issuperset(job.key_ids)]
    data: Fields = {
        "keys": list(job.key_ids),
        "workers": [{"worker": one.id, "keys": sorted(one.keys)} for one in having[:_SHOWN]],
    }
    if held:
        data |= {"held_since": job.waiting_for.since, "note": job.waiting_for.note}  # type: ignore[union-attr]
    text = _keys(job.key_ids, having, fit)
    if fit and held:
        text += " It was held when no worker had it, and is put back within about 15 s."
    return ExplainedGate(KEY, bool(fit or not having) and not held, text, data)


def _keys(key_ids: Sequence[str], having: list[WorkerStatus], fit: list[WorkerStatus]) -> str:
    """The keys that a job needs, and the workers that have them."""
    which = f"the key {listed([repr(key_id) for key_id in key_ids])}" if key_ids else "a key"
    needed = f"It is encrypted with {which}" if key_ids else "Its result is to be encrypted"
    if fit:
        who = f"worker {fit[0].id} has" if len(fit) == 1 else f"{len(fit)} live workers have"
        return f"{needed}, and {who} {'it' if key_ids else which}."
    if not having:
        return f"{needed}."
    who = (
        f"worker {having[0].id}, which has the handler, does" if len(having) == 1 else "the workers with its handler do"
    )
    return f"{needed}, and {who} not have {'it' if key_ids else which}."


def slots_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """Whether a worker that could run it has a free slot; there is no such gate where no worker could."""
    able = facts.able
    if not able:
        return None
    busy = dict.fromkeys((worker.id for worker in able), 0)
    for running in facts.running:
        if running.worker in busy and not running.ahead:
            busy[running.worker] += 1
    total = sum(worker.concurrency for worker in able)
    taken = sum(min(busy[worker.id], worker.concurrency) for worker in able)
    data = {
        "slots": total,
        "busy": taken,
        "workers": [{"worker": one.id, "slots": one.concurrency, "busy": busy[one.id]} for one in able[:_SHOWN]],
    }
    whose = f"worker {able[0].id}" if len(able) == 1 else f"the {len(able)} workers"
    if taken >= total:
        busy_all = f"All {total:,} slots" if total > 1 else "The only slot"
        return ExplainedGate(SLOTS, False, f"{busy_all} of {whose} that could run it {are(total)} busy.", data)
    # Where more jobs run than were read, a slot that seems free may be busy.
    data["at_least"] = facts.running_over
    least = "At least " if facts.running_over else ""
    text = f"{least}{taken:,} of {plural(total, 'slot')} of {whose} that could run it {are(taken)} busy."
    return ExplainedGate(SLOTS, True, text, data)


def _about(worker: WorkerStatus) -> Fields:
    return {
        "worker": worker.id,
        "version": worker.version or "",
        "queues": None if worker.queues is None else sorted(worker.queues),
        "slots": worker.concurrency,
    }


def _serve(number: int) -> str:
    return "serves" if number == 1 else "serve"
