"""Errors as values: they cross to other processes and come back the same."""

from __future__ import annotations

import pickle

import pytest

from mainspring import errors

MADE = [
    errors.InvalidCron("wrong", "* * * *", 7),
    errors.JobNotFound("a"),
    errors.JobStateError("a", "running", "update()", "pending"),
    errors.ScheduleNotFound("nightly"),
    errors.CalendarNotFound("holidays"),
    errors.BulkError([None, None], {1: errors.InvalidJob("no")}),
    errors.Snooze(5, "later"),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_after_it_was_pickled(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert {key: str(value) for key, value in vars(again).items()} == {
        key: str(value) for key, value in vars(error).items()
    }
