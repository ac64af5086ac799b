"""For tests of your own jobs: contexts, draining, time travel, assertions, faults, and the fixtures of a pytest plugin.

`pip install 'mainspring[testing]'` brings pytest, which finds the plugin `pytest_mainspring` by itself. Every helper
takes a Scheduler of either face: for the async one it is awaited, for `mainspring.sync` it blocks.
"""

from mainspring.clock import ManualClock
from mainspring.testing.binding import bind
from mainspring.testing.contexts import BlockingRecordingContext, RecordingContext, make_context
from mainspring.testing.draining import drain, run_until_idle
from mainspring.testing.eager import Eager, eager
from mainspring.testing.faults import Injected, crash_worker, fail_job, lose_reply
from mainspring.testing.recording import WAITING, Record, Scheduled
from mainspring.testing.runs import AttemptRaised, Journey, Run, Runs
from mainspring.testing.scheduled import assert_not_scheduled, assert_scheduled
from mainspring.testing.travelling import travel

__all__ = [
    "WAITING",
    "AttemptRaised",
    "BlockingRecordingContext",
    "Eager",
    "Injected",
    "Journey",
    "ManualClock",
    "Record",
    "RecordingContext",
    "Run",
    "Runs",
    "Scheduled",
    "assert_not_scheduled",
    "assert_scheduled",
    "bind",
    "crash_worker",
    "drain",
    "eager",
    "fail_job",
    "lose_reply",
    "make_context",
    "run_until_idle",
    "travel",
]
