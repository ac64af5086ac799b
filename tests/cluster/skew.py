"""Processes whose wall clock is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.processes import SKEW_VARIABLE

HOUR = 3600
LIBRARY_VARIABLE = "LIBFAKETIME"


def faketime() -> str | None:
    """The library of Debian's package libfaketime, where it is installed or where the environment says."""
    given = os.environ.get(LIBRARY_VARIABLE)
    if given:
        return given
    return next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)


def moved(how: str, seconds: int) -> Mapping[str, str]:
    """The environment of a process whose wall clock is off by so many seconds; its monotonic clock is not touched."""
    if how == "before the server is asked":
        return {SKEW_VARIABLE: str(seconds)}
    library = faketime()
    assert library is not None
    return {"LD_PRELOAD": library, "FAKETIME": f"{seconds:+d}s", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}


HOW = [
    "before the server is asked",
    pytest.param(
        "always", marks=pytest.mark.skipif(faketime() is None, reason="Debian's package libfaketime is missing")
    ),
]
