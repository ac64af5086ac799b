"""What the environment tells the service."""

from __future__ import annotations

import pytest

from harness.pages import ROOT
from mainspring.api.settings import ServiceSettings, service_settings
from mainspring.cli.support.environment import worker_settings
from mainspring.errors import ConfigurationError


def test_how_long_history_is_kept_can_be_set_in_words_or_for_ever() -> None:
    words = {"MAINSPRING_KEEP_FINISHED": "30d", "MAINSPRING_KEEP_FAILED": "12h", "MAINSPRING_KEEP_STATS": "forever"}
    assert worker_settings({}) == {}
    assert worker_settings(words) == {"keep_finished": 30 * 86400.0, "keep_failed": 12 * 3600.0, "keep_stats": None}
    with pytest.raises(ConfigurationError, match="MAINSPRING_KEEP_FINISHED"):
        worker_settings({"MAINSPRING_KEEP_FINISHED": "a while"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("MAINSPRING_RETRY_ON", "5xx,soon"), ("JOB_RETRY_ON", "99")],
)
def test_what_cannot_be_understood_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name} is wrong"):
        service_settings()


def test_which_failures_are_tried_again_can_be_set_for_all_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_RETRY_ON", "404, 5xx, network")
    assert service_settings().retry_on == "404, 5xx, network"


@pytest.mark.parametrize("name", ServiceSettings.model_fields)
def test_the_reference_has_every_setting_of_the_service_and_its_number(name: str) -> None:
    field = ServiceSettings.model_fields[name]
    variable = field.validation_alias.choices[0]  # type: ignore[union-attr]
    rows = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8").splitlines()
    (row,) = [row for row in rows if row.startswith("|") and f"`{variable}`" in row.partition(" | ")[0]]
    if isinstance(field.default, int) and not isinstance(field.default, bool):
        assert f"`{field.default}`" in row
