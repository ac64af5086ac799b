"""The defaults that a handler declares for its jobs and that apply when a job is stored. Pure.

A process that has the handler takes them from it. Workers write them to the registry for processes without it: only the
fields that differ from the defaults of every job, so that a worker with many handlers has little to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.jobs.draft import check_priority
from mainspring.model.jobs.guarantee import check_guarantee
from mainspring.model.jobs.job import DEFAULT_PRIORITY, DEFAULT_QUEUE
from mainspring.model.privacy.encrypted_values import Encrypt, check_encrypt


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """The defaults of the jobs of one name."""

    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    guarantee: str | None = None
    encrypt: Encrypt | None = None

    def to_document(self) -> Fields:
        """The fields that differ from the defaults of every job."""
        document: Fields = {}
        if self.queue != DEFAULT_QUEUE:
            document["queue"] = self.queue
        if self.priority != DEFAULT_PRIORITY:
            document["priority"] = self.priority
        if self.guarantee is not None:
            document["guarantee"] = self.guarantee
        if self.encrypt is not None:
            document["encrypt"] = True if self.encrypt.all else list(self.encrypt.paths)
        return document


PLAIN = JobDefaults()


@dataclass(frozen=True, slots=True)
class Registered:
    """The names that live workers have handlers for."""

    defaults: Mapping[str, JobDefaults]
    """The defaults of the jobs of each name."""
    any_name: bool
    """Whether a worker takes jobs of any name."""


def defaults_of(document: Mapping[str, Any]) -> JobDefaults:
    """The defaults that a worker reports. An unreadable field has the default of every job, but where it is about
    encryption, all data is encrypted."""
    try:
        encrypt = check_encrypt(document.get("encrypt"))
    except ConfigurationError:
        encrypt = Encrypt()
    try:
        return JobDefaults(
            queue=check_name(document.get("queue", DEFAULT_QUEUE), "a queue's name"),
            priority=check_priority(document.get("priority", DEFAULT_PRIORITY)),
            guarantee=check_guarantee(document["guarantee"]) if "guarantee" in document else None,
            encrypt=encrypt,
        )
    except ConfigurationError:
        return JobDefaults(encrypt=encrypt)


def told_defaults(worker: Mapping[str, Any]) -> dict[str, JobDefaults]:
    """The defaults that a worker reports, for the names that have a handler of their own."""
    names = worker.get("handlers")
    if names is None:  # it takes any name, and reports the versions of names that have a handler of their own
        names = [entry["name"] for entry in _entries(worker, "versions")]
    told = {entry["name"]: defaults_of(entry) for entry in _entries(worker, "defaults")}
    return {**dict.fromkeys(names, PLAIN), **told}


def _entries(worker: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = worker.get(key)
    entries = found if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)]
