"""Another user of the machine: a process that has given up all rights of the tests'."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import pytest

NOBODY = 65534
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user of the machine"
)


def as_nobody(act: Callable[[], str]) -> str:
    """What a function returns in a process of another user, or the name of what it raises."""
    reading, telling = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child has none, and does little
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(telling, _outcome(act).encode())
        finally:
            os._exit(0)
    os.close(telling)
    with os.fdopen(reading) as told:
        outcome = told.read()
    os.waitpid(child, 0)
    return outcome


def _outcome(act: Callable[[], str]) -> str:
    try:
        return act()
    except Exception as error:
        return type(error).__name__
