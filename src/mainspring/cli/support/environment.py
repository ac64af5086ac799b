"""Settings of a worker in the environment, or in `.env`, for the commands that run one.

Each has a name of Mainspring's own; the name that an older service used for it is read too. Options of the command
override them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mainspring.config.settings import URI_VARIABLES
from mainspring.durations import duration_ms
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields


@dataclass(frozen=True, slots=True)
class _Variable:
    """A setting, its names in the environment, and how many units of the variable make one of the setting."""

    setting: str
    names: tuple[str, ...]
    least: int
    unit: int = 1


_VARIABLES = (
    _Variable("concurrency", ("MAINSPRING_CONCURRENCY", "MAX_CONCURRENT_JOBS"), least=1),
    _Variable("poll_interval", ("MAINSPRING_POLL_INTERVAL_MS", "SCHEDULER_POLL_INTERVAL"), least=10, unit=1000),
)
_DURATIONS = ("lease", "start_within", "keep_finished", "keep_failed", "keep_stats")
_TEXTS = ("field_map", "release")
_FOR_EVER = "forever"


def worker_settings(environment: Mapping[str, str] = os.environ) -> Fields:
    """The settings that the environment gives."""
    found: Fields = {}
    for variable in _VARIABLES:
        name = next((name for name in variable.names if environment.get(name, "").strip()), None)
        if name is not None:
            number = _whole(name, environment[name], variable.least)
            found[variable.setting] = number if variable.unit == 1 else number / variable.unit
    for setting in _TEXTS:
        if text := environment.get(f"MAINSPRING_{setting.upper()}", "").strip():
            found[setting] = text
    return found | _durations(environment)


def _durations(environment: Mapping[str, str]) -> dict[str, float | None]:
    """Durations with their unit, such as 15m or 30d; "forever" for how long history is kept."""
    given = {f"MAINSPRING_{setting.upper()}": setting for setting in _DURATIONS}
    return {
        setting: _duration(name, text) for name, setting in given.items() if (text := environment.get(name, "").strip())
    }


def _duration(name: str, text: str) -> float | None:
    return None if text == _FOR_EVER else duration_ms(text, name, ConfigurationError) / 1000


def is_place_named(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment names a database."""
    return any(environment.get(name) for name in URI_VARIABLES)


def _whole(name: str, text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {text!r}.")
    return number
