"""Schedules as Sentry's monitors: their slugs, ids and configurations."""

from __future__ import annotations

from mainspring import Cron, Every
from mainspring.observability.sentry_checkins import check_in_id_of, monitor_config, slug_of


def test_an_id_that_is_a_slug_stays_and_others_get_a_hash_that_tells_them_apart() -> None:
    assert slug_of("nightly-report") == "nightly-report"
    assert slug_of("Nightly Report").startswith("nightly-report-")
    assert slug_of("Nightly Report") != slug_of("nightly report")
    assert slug_of("日次") and len(slug_of("x" * 200)) <= 50
    assert slug_of("x" * 200) != slug_of("x" * 201)


def test_all_check_ins_of_a_job_have_one_id() -> None:
    assert check_in_id_of("a") == check_in_id_of("a") != check_in_id_of("b")
    assert len(check_in_id_of("a")) == 32


def test_a_rule_that_sentry_knows_becomes_the_configuration_of_a_monitor() -> None:
    assert monitor_config(Cron("0 9 * * *", "Asia/Kolkata")) == {
        "schedule": {"type": "crontab", "value": "0 9 * * *"},
        "timezone": "Asia/Kolkata",
    }
    assert monitor_config(Every("90m")) == {"schedule": {"type": "interval", "value": 90, "unit": "minute"}}
    assert monitor_config(Every("2d")) == {"schedule": {"type": "interval", "value": 2, "unit": "day"}}
    assert monitor_config(Every("30s")) is None
    assert monitor_config(Cron("*/10 0 9 * * *")) is None
