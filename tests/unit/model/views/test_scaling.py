"""How many workers a queue needs."""

from __future__ import annotations

import pytest

from mainspring.model.views.scaling import wanted_workers


@pytest.mark.parametrize(
    ("ready", "busy", "run", "slots", "drain", "wanted"),
    [
        (0, 0, 1.0, 10, 60, 0),  # nothing to do: scale to zero
        (1, 0, 0.001, 10, 60, 1),  # a job that takes no time needs a worker all the same
        (1, 0, 0.0, 10, 60, 1),
        (600, 0, 1.0, 1, 60, 10),  # ten minutes of work, done in one
        (600, 0, 1.0, 10, 60, 1),
        (601, 0, 1.0, 10, 60, 2),
        (600, 0, 1.0, 1, 10, 60),
        (5, 0, 3600.0, 1, 60, 5),  # long jobs: a slot for each, never more
        (5, 3, 3600.0, 1, 60, 8),
        (0, 7, 0.1, 2, 60, 4),  # workers whose slots are busy stay
        (600, 0, None, 1, 60, 10),  # no run time is known yet
    ],
)
def test_the_ready_work_over_the_time_and_the_slots_gives_the_workers(
    ready: int, busy: int, run: float | None, slots: int, drain: float, wanted: int
) -> None:
    assert wanted_workers(ready, busy, run, slots, drain) == wanted


def test_a_paused_queue_needs_only_the_workers_of_its_running_jobs() -> None:
    assert wanted_workers(1000, 0, 1.0, 1, 60, paused=True) == 0
    assert wanted_workers(1000, 3, 1.0, 1, 60, paused=True) == 3
