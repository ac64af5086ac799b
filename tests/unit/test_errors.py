"""Errors as values: they cross to other processes and come back the same."""

from __future__ import annotations

import pickle

import pytest

import mainspring
import mainspring.sync
from mainspring import errors

MADE = [
    errors.InvalidCron("wrong", "* * * *", 7),
    errors.JobNotFound("a"),
    errors.JobStateError("a", "running", "update()", "pending"),
    errors.JobStateError("a", "running", "delete()", "waiting and ended", "Cancel it first."),
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


@pytest.mark.parametrize("kind", [mainspring.Scheduler, mainspring.sync.Scheduler])
def test_a_verb_that_is_looked_for_on_the_scheduler_itself_is_named_with_its_namespace(kind: type) -> None:
    scheduler = kind("mongodb://127.0.0.1:1")
    with pytest.raises(AttributeError, match=r"'groups'\. Did you mean scheduler\.dead_letters\.groups\?$"):
        scheduler.groups  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'gruops'$"):
        scheduler.gruops  # noqa: B018
    assert not hasattr(scheduler, "_groups")
