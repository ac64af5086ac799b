"""The public names of mainspring.testing, and the page that has all of them."""

from __future__ import annotations

import inspect

from harness.pages import ROOT, inline_code
from mainspring import testing

PAGE = ROOT / "docs" / "howto" / "test-your-jobs.md"
HELPERS = {
    *("assert_not_scheduled", "assert_scheduled", "bind", "crash_worker", "drain", "eager", "fail_job", "lose_reply"),
    *("make_context", "run_until_idle", "travel"),
}
OTHERS = {
    *("AttemptRaised", "BlockingRecordingContext", "Eager", "Injected", "Journey", "ManualClock", "Record"),
    *("RecordingContext", "Run", "Runs", "Scheduled", "WAITING"),
}


def test_the_module_exports_these_names_and_no_others() -> None:
    assert set(testing.__all__) == HELPERS | OTHERS


def test_the_page_has_every_helper_with_the_arguments_that_it_has() -> None:
    code = " ".join(inline_code(PAGE))
    assert [name for name in HELPERS if f"{name}(" not in code] == []
    shown = {"steps", "answers", "before", "results", "cancelled", "blocking", "attempt", "name"}
    assert shown <= set(inspect.signature(testing.make_context).parameters)
    faults = set(inspect.signature(testing.crash_worker).parameters) | set(
        inspect.signature(testing.fail_job).parameters
    )
    assert {"at", "after_step", "times", "after"} <= faults


def test_every_helper_says_what_it_is_for() -> None:
    assert [name for name in testing.__all__ if not inspect.getdoc(getattr(testing, name))] == []
