"""What `schedule()` refuses before anything is stored, and the cure each refusal names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mainspring import ConfigurationError, InvalidJob, Retry
from mainspring.model.jobs.draft import make_draft, start_by

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class _NoOffset(tzinfo):
    def utcoffset(self, dt: datetime | None) -> None:
        return None

    dst = utcoffset

    def tzname(self, dt: datetime | None) -> str:
        return "nowhere"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run_at": datetime(2030, 1, 1)}, r"run_at=2030-01-01T00:00:00 has no time zone.*use datetime\.now\(UTC\)"),
        ({"expires_at": datetime(2030, 1, 1)}, r"expires_at=2030.* has no time zone.*ZoneInfo"),
        ({"run_at": datetime(2030, 1, 1, tzinfo=_NoOffset())}, "has no time zone"),
        ({"run_at": "tomorrow"}, "run_at must be an aware datetime, not 'tomorrow'"),
        ({"expires_at": 5}, "expires_at must be an aware datetime, not 5"),
        ({"run_at": NOON, "delay": 5}, "Give run_at or delay, not both"),
        ({"delay": -1}, "delay must be between 0 seconds and ten years, not -1"),
        ({"delay": "5"}, "delay='5' lacks a unit; write 5s for seconds or 5m for minutes"),
        ({"delay": True}, 'delay must be seconds, a timedelta or text such as "5m", not True'),
        ({"start_within": -5}, "start_within must be between 0 seconds"),
        ({"timeout": 0}, "timeout must be more than 0 seconds; leave it out for no limit"),
        ({"timeout": timedelta(seconds=-1)}, "timeout must be between"),
        ({"priority": 0}, r"priority must be a whole number from 1 \(first\) to 10 \(last\), not 0"),
        ({"priority": 11}, "priority must be a whole number .* not 11"),
        ({"priority": True}, "priority must be a whole number .* not True"),
        ({"priority": 1.0}, "priority must be a whole number .* not 1.0"),
        ({"priority": "high"}, "priority must be a whole number .* not 'high'"),
        ({"tags": "welcome"}, "tags must be a list of at most 50 strings, not 'welcome'"),
        ({"tags": {"a"}}, "tags must be a list"),
        ({"tags": ["x"] * 51}, "tags must be a list of at most 50"),
        ({"tags": [""]}, "a tag must be printable text of 1 to 200 characters, not ''"),
        ({"tags": [5]}, "a tag must be printable text"),
        ({"tags": [["nested"]]}, "a tag must be printable text"),
        ({"queue": ""}, "a queue's name must be printable text"),
        ({"queue": "a\nb"}, "a queue's name must be printable text"),
        ({"dedupe_key": ""}, "dedupe_key must be printable text"),
        ({"dedupe_key": "k" * 201}, "dedupe_key must be printable text of 1 to 200"),
        ({"dedupe_window": 5}, "dedupe_window needs a dedupe_key"),
        ({"dedupe_namespace": "a"}, "dedupe_namespace needs a dedupe_key"),
        ({"dedupe_namespace": "a\x1f", "dedupe_key": "k"}, "dedupe_namespace must be printable text"),
        ({"dedupe_key": "k", "dedupe_window": -5}, "dedupe_window must be between 0"),
        ({"retry": {"attempts": 5}}, r"retry must be a Retry, such as Retry\(attempts=5, delay=10\), not a mapping"),
        ({"retry": "often"}, "retry must be a Retry or a number of attempts, not 'often'"),
        ({"retry": 0}, "includes the first one, must be a whole number of at least 1"),
        ({"retry": Retry(delay=lambda attempt: 1.0)}, "give it to the handler's decorator instead"),
    ],
)
def test_a_wrong_option_is_refused_with_its_cure(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_draft("x", None, **options)


@pytest.mark.parametrize("name", ["", None, 5, "a\0b", "n" * 201, "\ud800"])
def test_a_name_is_printable_text(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="a job's name must be printable text of 1 to 200 characters"):
        make_draft(name, None)


def test_what_is_not_said_has_its_default() -> None:
    draft = make_draft("x", None)
    assert (draft.queue, draft.priority, draft.run_at, draft.delay) == ("default", 5, None, 0.0)
    assert (draft.tags, draft.retry, draft.timeout, draft.expires_at, draft.dedupe_key) == (None,) * 5


def test_durations_are_seconds_or_timedeltas() -> None:
    draft = make_draft("x", None, delay=timedelta(minutes=2), timeout=3, start_within=timedelta(hours=1))
    assert (draft.delay, draft.timeout, draft.start_within) == (120.0, 3.0, 3600.0)


@pytest.mark.parametrize("zone", [ZoneInfo("Asia/Kathmandu"), timezone(timedelta(hours=-7))])
def test_an_instant_may_be_given_in_any_time_zone(zone: tzinfo) -> None:
    assert make_draft("x", None, run_at=NOON.astimezone(zone)).run_at == NOON


def test_tags_are_kept_once_each_and_in_order() -> None:
    assert make_draft("x", None, tags=("b", "a", "b")).tags == ["b", "a"]


def test_a_number_is_a_short_form_of_a_retry_policy() -> None:
    assert make_draft("x", None, retry=7).retry == Retry(attempts=7).to_document()


def test_refusals_of_jobs_are_invalid_jobs_where_the_job_is_to_blame() -> None:
    refused: list[dict[str, Any]] = [{"priority": 0}, {"run_at": datetime(2030, 1, 1)}, {"tags": "x"}, {"timeout": 0}]
    for options in refused:
        with pytest.raises(InvalidJob):
            make_draft("x", None, **options)


def test_a_job_must_be_started_by_the_earlier_of_its_two_limits() -> None:
    assert start_by(NOON, None, None) is None
    assert start_by(NOON, NOON + timedelta(hours=1), None) == NOON + timedelta(hours=1)
    assert start_by(NOON, None, 60) == NOON + timedelta(minutes=1)
    assert start_by(NOON, NOON + timedelta(seconds=30), 60) == NOON + timedelta(seconds=30)
