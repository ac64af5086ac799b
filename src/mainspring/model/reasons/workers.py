"""The gates that have to do with workers: who serves the queue, who has the handler, and who has a free slot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.model.explanation import (
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
from mainspring.model.reserved import cure_for
from mainspring.model.standing import LiveWorker, Standing
from mainspring.model.versions import FIRST_VERSION

_SHOWN = 10
_BY_HANDLER, _BY_VERSION, _BY_KEY = "handler", "version", "key"


def worker_gate(standing: Standing) -> ExplainedGate:
    """Whether a live worker subscribes to its queue."""
    queue, live = standing.job.queue, standing.workers
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
    return ExplainedGate(WORKER, False, f"{text}: {listed(queues)}.", data)


def handler_gate(standing: Standing) -> ExplainedGate:
    """Whether a worker of its queue has a handler for its name; where none serves the queue, whether anybody has."""
    job = standing.job
    serving = [worker for worker in standing.workers if worker.serves(job.queue)]
    able = [worker for worker in serving if worker.handles(job.name)]
    elsewhere = [worker for worker in standing.workers if worker.handles(job.name) and worker not in able]
    data = {
        "name": job.name,
        "able": [_about(worker) for worker in able[:_SHOWN]],
        "elsewhere": [_about(worker) for worker in elsewhere[:_SHOWN]],
    }
    if job.held is not None and job.held.by == _BY_HANDLER and standing.line is None:
        return _held_for_handler(standing, able, data)
    if able:
        return ExplainedGate(HANDLER, True, _have(job.name, able), data)
    if not serving and elsewhere:
        return ExplainedGate(HANDLER, True, _have(job.name, elsewhere), data)
    return ExplainedGate(HANDLER, False, _nobody(standing, serving, elsewhere), data)


def version_gate(standing: Standing) -> ExplainedGate | None:
    """Whether a worker that has the handler has it in a version that takes the job's data; only newer data than that of
    the first version has this gate."""
    job = standing.job
    if job.data_version <= FIRST_VERSION:
        return None
    having = [worker for worker in standing.workers if worker.serves(job.queue) and worker.handles(job.name)]
    fit = [worker for worker in having if worker.takes(job.name, job.data_version)]
    data: dict[str, Any] = {
        "name": job.name,
        "version": job.data_version,
        "workers": [
            {"worker": one.id, "version": one.versions.get(job.name, FIRST_VERSION)} for one in having[:_SHOWN]
        ],
    }
    held = job.held is not None and job.held.by == _BY_VERSION and standing.line is None
    if held:
        data |= {"held_since": job.held.since, "note": job.held.note}  # type: ignore[union-attr]
    text = _versions(job.name, job.data_version, having, fit)
    if fit and held:
        text += " It was held when nobody could run it, and is put back within about 15 s."
    return ExplainedGate(VERSION, bool(fit or not having) and not held, text, data)


def _versions(name: str, version: int, having: list[LiveWorker], fit: list[LiveWorker]) -> str:
    """Which version the data needs, and who has which."""
    needed = f"Its data is of version {version}"
    if fit:
        who = f"worker {fit[0].id} takes" if len(fit) == 1 else f"{len(fit)} live workers take"
        return f"{needed}, which {who}."
    if not having:
        return f"{needed}."
    has = sorted({worker.versions.get(name, FIRST_VERSION) for worker in having})
    who = f"worker {having[0].id} has" if len(having) == 1 else f"the {len(having)} live workers have"
    return f"{needed}, and {who} version {listed([str(one) for one in has])} of the handler for {name!r}."


def _held_for_handler(standing: Standing, able: list[LiveWorker], data: dict[str, Any]) -> ExplainedGate:
    """It was set aside since nobody had a handler; whoever has one now puts it back."""
    held = standing.job.held
    assert held is not None
    data |= {"held_since": held.since, "note": held.note}
    if not able:
        since = "" if held.since is None else f" It has been held for {span(standing.now - held.since)}."
        return ExplainedGate(HANDLER, False, sentence(held.note) + since, data)
    text = f"{_have(standing.job.name, able)} It was held when nobody had one, and is put back within about 15 s."
    return ExplainedGate(HANDLER, False, text, data)


def _nobody(standing: Standing, serving: list[LiveWorker], elsewhere: list[LiveWorker]) -> str:
    name, queue = standing.job.name, standing.job.queue
    cure = f" {cure_for(name)}" if cure_for(name) else ""
    if not serving:
        return f"No live worker has a handler for {name!r}.{cure}"
    text = f"No live worker that serves the queue {queue!r} has a handler for {name!r}."
    if elsewhere:
        queues = sorted({one for worker in elsewhere for one in worker.queues or ()})
        text += f" {_have(name, elsewhere).removesuffix('.')}, but {_serve(len(elsewhere))} {listed(queues)}."
    return text + cure


def _have(name: str, workers: list[LiveWorker]) -> str:
    versions = sorted({worker.version for worker in workers if worker.version})
    told = f" (version {listed(versions)})" if versions else ""
    who = f"Worker {workers[0].id}" if len(workers) == 1 else plural(len(workers), "live worker")
    return f"{who}{told} {'has' if len(workers) == 1 else 'have'} a handler for {name!r}."


def key_gate(standing: Standing) -> ExplainedGate | None:
    """Whether a worker that has the handler has the keys that the job is encrypted with; only encrypted jobs, and those
    whose results are to be, have this gate."""
    job = standing.job
    held = job.held is not None and job.held.by == _BY_KEY and standing.line is None
    if not job.key_ids and not held:
        return None
    having = [worker for worker in standing.workers if worker.serves(job.queue) and worker.handles(job.name)]
    fit = [worker for worker in having if worker.keys and worker.opens(job.key_ids)]
    data: dict[str, Any] = {
        "keys": list(job.key_ids),
        "workers": [{"worker": one.id, "keys": sorted(one.keys)} for one in having[:_SHOWN]],
    }
    if held:
        data |= {"held_since": job.held.since, "note": job.held.note}  # type: ignore[union-attr]
    text = _keys(job.key_ids, having, fit)
    if fit and held:
        text += " It was held when nobody had, and is put back within about 15 s."
    return ExplainedGate(KEY, bool(fit or not having) and not held, text, data)


def _keys(kids: Sequence[str], having: list[LiveWorker], fit: list[LiveWorker]) -> str:
    """Which keys a job needs, and who has them."""
    which = f"the key {listed([repr(kid) for kid in kids])}" if kids else "a key"
    needed = f"It is encrypted with {which}" if kids else "What its handler finds out is to be encrypted"
    if fit:
        who = f"worker {fit[0].id} has" if len(fit) == 1 else f"{len(fit)} live workers have"
        return f"{needed}, and {who} {'it' if kids else which}."
    if not having:
        return f"{needed}."
    who = (
        f"worker {having[0].id}, which has the handler, does" if len(having) == 1 else "the workers with its handler do"
    )
    return f"{needed}, and {who} not have {'it' if kids else which}."


def slots_gate(standing: Standing) -> ExplainedGate | None:
    """Whether a worker that could run it has a free slot; there is no such gate where nobody could."""
    able = standing.able
    if not able:
        return None
    busy = dict.fromkeys((worker.id for worker in able), 0)
    for running in standing.running:
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
    # Where more jobs run than were read, a slot that seems free may not be.
    data["at_least"] = standing.running_over
    least = "At least " if standing.running_over else ""
    text = f"{least}{taken:,} of {plural(total, 'slot')} of {whose} that could run it {are(taken)} busy."
    return ExplainedGate(SLOTS, True, text, data)


def _about(worker: LiveWorker) -> dict[str, Any]:
    return {
        "worker": worker.id,
        "version": worker.version,
        "queues": None if worker.queues is None else sorted(worker.queues),
        "slots": worker.concurrency,
    }


def _serve(number: int) -> str:
    return "serves" if number == 1 else "serve"
