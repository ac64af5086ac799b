"""The limits that a worker's code declares, as it reports them in the registry. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.limits.breaker import Breaker
from mainspring.model.limits.limits import JobLimits, Limit, Rate, Sequence
from mainspring.model.workers import Place, WorkerStatus


def limits_from_document(document: Mapping[str, Any]) -> JobLimits:
    """The limits in a stored override, or in a worker's report."""
    concurrency, rate, sequence = document.get("concurrency"), document.get("rate"), document.get("sequence")
    return JobLimits(
        concurrency=None if concurrency is None else Limit.from_document(concurrency),
        rate=None if rate is None else Rate.from_document(rate),
        sequence=None if sequence is None else Sequence(sequence["key"], sequence["on_failure"]),
        fair=document.get("fair"),
    )


def reported_limits(document: Mapping[str, Any]) -> dict[Place, JobLimits] | None:
    """The limits that a worker reports; None when it reports none, or in a form that only a newer version reads."""
    limits = document.get("limits")
    if not isinstance(limits, list):
        return None
    try:
        return {(entry["scope"], entry["target"]): limits_from_document(entry) for entry in limits}
    except (ConfigurationError, KeyError, TypeError):
        return None


def reported_breakers(document: Mapping[str, Any]) -> dict[Place, Breaker]:
    """The breakers that a worker reports, as far as this version reads them."""
    try:
        found = {(entry["scope"], entry["target"]): entry for entry in document.get("breakers") or ()}
        return {place: Breaker.from_document(entry) for place, entry in found.items()}
    except (ConfigurationError, KeyError, TypeError):
        return {}


def merged_reports(workers: Iterable[WorkerStatus]) -> dict[Place, JobLimits]:
    """The limits and breakers that workers declare, merged: where workers differ, the widest limits."""
    found: dict[Place, JobLimits] = {}
    for worker in workers:
        for place, limits in (worker.limits or {}).items():
            found[place] = _wider(found.get(place, JobLimits()), limits)
        for place, breaker in worker.breakers.items():
            found[place] = replace(found.get(place, JobLimits()), breaker=breaker)
    return found


def _wider(one: JobLimits, other: JobLimits) -> JobLimits:
    slots = [rule for rule in (one.concurrency, other.concurrency) if rule is not None]
    starts = [rule for rule in (one.rate, other.rate) if rule is not None]
    return replace(
        one,
        concurrency=max(slots, key=generosity, default=None),
        rate=max(starts, key=generosity, default=None),
    )


def limits_document(scope: str, target: str, allowance: JobLimits) -> Fields:
    """A worker's report of the limits of a name or queue."""
    sequence = allowance.sequence
    told = {
        "concurrency": None if allowance.concurrency is None else allowance.concurrency.to_document(),
        "rate": None if allowance.rate is None else allowance.rate.to_document(),
        "sequence": None if sequence is None else {"key": sequence.key, "on_failure": sequence.on_failure},
        "fair": allowance.fair,
    }
    return {"scope": scope, "target": target, **{key: value for key, value in told.items() if value is not None}}


def generosity(rule: Limit | Rate) -> float:
    """The measure by which the widest of several limits, or of several rates, is found."""
    return float(rule.limit if isinstance(rule, Limit) else rule.per_second)
