"""The payload versions of a job's data: the handler's declaration, and the upgrade of older data. Pure.

A handler of version 3 has a function from 1 to 2 and one from 2 to 3. Data is stored with the version that it was
written for, and is upgraded from there each time its job runs; the stored data does not change.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from mainspring.errors import HandlerError, InvalidJob, Signal
from mainspring.model.fields import Fields

FIRST_VERSION = 1
LAST_VERSION = 2**31 - 1

Upgrade = Callable[[Fields], Mapping[str, Any]]
"""Takes data of one version and returns data of the next."""


class PayloadUpgradeFailed(Exception):
    """A function that upgrades older data has raised, or has returned no data."""


def is_version(value: object) -> bool:
    """Whether a value can be a version; programs in other languages may store it as a whole double."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return FIRST_VERSION <= value <= LAST_VERSION and value == int(value)


def takes(told: Mapping[str, int], name: str, version: int, *, any_name: bool) -> bool:
    """Whether a worker that reports these versions of its handlers can run data of a version.

    A worker with a catch-all (`any_name`) reports the versions of all its other handlers; the catch-all takes any.
    """
    own = told.get(name)
    return (any_name or version <= FIRST_VERSION) if own is None else version <= own


def check_version(value: object) -> int:
    """Check the version of a job's data."""
    if not is_version(value):
        raise InvalidJob(f"version must be a whole number from 1 on, not {value!r}.")
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_upgrades(name: str, version: object, upgrade: Mapping[int, Upgrade] | None) -> tuple[int, dict[int, Upgrade]]:
    """A handler's version and its functions, one from each earlier version to the next; anything else is refused."""
    if isinstance(version, float) or not is_version(version):
        raise HandlerError(f"The version of {name!r} must be a whole number from 1 on, not {version!r}.")
    assert isinstance(version, int)
    if upgrade is not None and not isinstance(upgrade, Mapping):
        raise HandlerError(
            f"upgrade of {name!r} must map versions to functions, such as {{1: from_1_to_2}}, not {upgrade!r}."
        )
    given = dict(upgrade or {})
    for older in range(FIRST_VERSION, version):
        if older not in given:
            raise HandlerError(
                f"upgrade of {name!r} lacks a function from version {older}; version={version} needs one from each of "
                f"1 to {version - 1}. For data that must not run, give one that raises Fail."
            )
        _check_upgrade(name, older, given.pop(older))
    if given:
        raise HandlerError(
            f"upgrade of {name!r} has a function from {next(iter(given))!r}, but version={version} has no use for it; "
            "the keys are the earlier versions."
        )
    return version, dict(upgrade or {})


def _check_upgrade(name: str, older: int, function: object) -> None:
    if not callable(function):
        raise HandlerError(f"upgrade of {name!r} from version {older} must be a function, not {function!r}.")
    if inspect.iscoroutinefunction(function):
        raise HandlerError(
            f"upgrade of {name!r} from version {older} must be a plain function that turns data into data. Look "
            "things up in the handler."
        )


def upgraded(name: str, data: Mapping[str, Any], version: int, to: int, upgrades: Mapping[int, Upgrade]) -> Fields:
    """Data of an older version, upgraded to the handler's. The given data is not changed."""
    current: Mapping[str, Any] = data
    for older in range(version, to):
        current = _upgrade_once(name, older, deepcopy(dict(current)), upgrades[older])
    return dict(current)


def _upgrade_once(name: str, older: int, data: Fields, function: Upgrade) -> Mapping[str, Any]:
    what = f"The upgrade of {name!r} from version {older} to {older + 1}"
    try:
        result = function(data)
    except Signal:
        raise
    except Exception as error:
        raise PayloadUpgradeFailed(f"{what} raised {type(error).__qualname__}: {error}") from error
    if not isinstance(result, Mapping):
        raise PayloadUpgradeFailed(f"{what} must return the data, not {type(result).__name__}.")
    return result
