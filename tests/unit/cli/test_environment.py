"""What the commands take from the environment."""

from __future__ import annotations

import pytest

from mainspring.cli.support.environment import is_place_named, worker_settings
from mainspring.cli.up import plays
from mainspring.config.settings import URI_VARIABLES
from mainspring.errors import ConfigurationError


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, {}),
        ({"MAX_CONCURRENT_JOBS": "7", "SCHEDULER_POLL_INTERVAL": "500"}, {"concurrency": 7, "poll_interval": 0.5}),
        ({"MAINSPRING_CONCURRENCY": "3", "MAX_CONCURRENT_JOBS": "7"}, {"concurrency": 3}),
        ({"MAINSPRING_POLL_INTERVAL_MS": "30000", "MAX_CONCURRENT_JOBS": " "}, {"poll_interval": 30.0}),
    ],
)
def test_a_worker_reads_its_settings_by_our_names_and_by_those_of_before(
    environment: dict[str, str], settings: dict[str, object]
) -> None:
    assert worker_settings(environment) == settings


@pytest.mark.parametrize(("name", "text"), [("MAX_CONCURRENT_JOBS", "0"), ("SCHEDULER_POLL_INTERVAL", "1s")])
def test_a_variable_that_makes_no_sense_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be a whole number of at least .*, not '{text}'"):
        worker_settings({name: text})


@pytest.mark.parametrize("variable", URI_VARIABLES)
def test_the_demonstration_is_played_only_where_no_database_was_named(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in URI_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert plays(None, None) and not is_place_named()
    assert not plays("app:scheduler", None)
    assert not plays(None, "embedded:data") and not plays(None, "mongodb://there")
    monkeypatch.setenv(variable, "mongodb://there")
    assert not plays(None, None)


def test_the_release_of_the_program_may_be_given() -> None:
    assert worker_settings({"MAINSPRING_RELEASE": " shop 2026.11.2 "}) == {"release": "shop 2026.11.2"}


def test_the_lease_the_start_window_and_the_field_map_may_be_given() -> None:
    given = {"MAINSPRING_LEASE": "15m", "MAINSPRING_START_WITHIN": "30m", "MAINSPRING_FIELD_MAP": "status-lock"}
    assert worker_settings(given) == {"lease": 900.0, "start_within": 1800.0, "field_map": "status-lock"}
    assert worker_settings({"MAINSPRING_LEASE": "", "MAINSPRING_FIELD_MAP": " "}) == {}
