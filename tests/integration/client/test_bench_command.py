"""`mainspring bench`: a short measurement that leaves nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pymongo import MongoClient
from typer.testing import CliRunner

from mainspring.cli.app import app
from mainspring.client.benchmarking import PREFIX


@pytest.mark.slow
def test_the_measurement_prints_ratios_to_the_floor_and_drops_its_database(
    uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    ended = CliRunner().invoke(app, ["bench", "--jobs", "50", "--probes", "3", "--json", "--uri", uri])
    assert (ended.exit_code, caplog.messages) == (0, []), ended.output
    figures = {figure["name"]: figure for figure in json.loads(ended.stdout)}
    assert figures["raw insert in batches"]["ratio"] is None
    assert all(figures[name]["ratio"] > 0 for name in ("schedule_bulk", "schedule() of one", "drain, one worker"))
    assert figures["schedule() to handler, median"]["value"] > 0
    with MongoClient[dict[str, Any]](uri) as client:
        assert not [name for name in client.list_database_names() if name.startswith(PREFIX)]
