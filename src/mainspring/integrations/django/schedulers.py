"""The blocking Schedulers of the backends: one for each alias and process, however many threads have a backend.

Django makes a backend in every thread. `OPTIONS` of the setting are the options of the Scheduler, with its `uri`; or
`{"scheduler": "myproject.jobs.scheduler"}` names one that the project has.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from django.utils.module_loading import import_string

from mainspring.errors import ConfigurationError
from mainspring.sync import Scheduler

_schedulers: dict[str, tuple[Mapping[str, Any], Scheduler]] = {}
_lock = threading.Lock()


def scheduler_of(alias: str, options: Mapping[str, Any]) -> Scheduler:
    """The Scheduler of a backend; other options than before, as in tests, make another one."""
    with _lock:
        known = _schedulers.get(alias)
        if known is not None and known[0] == options:
            return known[1]
        scheduler = _make(options)
        _schedulers[alias] = (dict(options), scheduler)
    if known is not None and "scheduler" not in known[0]:
        known[1].stop()
    return scheduler


def _make(options: Mapping[str, Any]) -> Scheduler:
    if "scheduler" not in options:
        return Scheduler(**options)
    if len(options) > 1:
        raise ConfigurationError("OPTIONS has a scheduler, which has its own options; leave the others out.")
    found = import_string(options["scheduler"])
    if not isinstance(found, Scheduler):
        raise ConfigurationError(f"{options['scheduler']} must be a mainspring.sync.Scheduler, not {found!r:.100}.")
    return found
