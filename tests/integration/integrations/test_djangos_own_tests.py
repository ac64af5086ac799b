"""The tests that Django itself has of tasks hold for the backend."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.processes import TESTS

FOLDER = os.environ.get("MAINSPRING_DJANGO_TESTS")


@pytest.mark.skipif(FOLDER is None, reason="MAINSPRING_DJANGO_TESTS names no folder of the tests of Django")
def test_djangos_own_tests_hold(uri: str) -> None:
    command = [sys.executable, "-m", "harness.django_own_tests", str(FOLDER), uri]
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
