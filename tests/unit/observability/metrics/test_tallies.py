"""The labels of metrics are bounded, whatever names jobs have."""

from __future__ import annotations

from datetime import UTC, datetime

from mainspring.model.jobs.job import Job
from mainspring.observability.metrics.catalogue import ALL, COUNTER, MOST_KINDS, OTHER
from mainspring.observability.metrics.tallies import Bounded, Histogram, Tallies

_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _job(name: str, queue: str) -> Job:
    return Job(id="1", name=name, data={}, state="pending", queue=queue, priority=5, run_at=_AT, created_at=_AT)


def test_the_first_values_of_a_label_keep_their_names_and_the_others_are_one() -> None:
    label = Bounded(2)
    assert [label.shown(value) for value in "abcab"] == ["a", "b", OTHER, "a", "b"]


def test_job_names_and_queues_beyond_their_bounds_are_counted_together() -> None:
    tallies = Tallies(most_names=3, most_queues=2)
    for number in range(1000):
        tallies.scheduled(_job(f"name-{number}", f"queue-{number % 10}"))
    assert {name for _, name in tallies.kinds} == {"name-0", "name-1", "name-2", OTHER}
    assert {queue for queue, _ in tallies.kinds} == {"queue-0", "queue-1", OTHER}
    assert sum(kind.scheduled for kind in tallies.kinds.values()) == 1000


def test_the_pairs_of_a_queue_and_a_name_are_bounded_too() -> None:
    tallies = Tallies()
    for queue in range(60):
        for name in range(60):
            tallies.scheduled(_job(f"name-{name}", f"queue-{queue}"))
    assert len(tallies.kinds) == MOST_KINDS + 1
    assert sum(kind.scheduled for kind in tallies.kinds.values()) == 3600


def test_the_buckets_of_a_histogram_are_sums_up_to_their_bounds() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7):
        histogram.add(seconds)
    assert histogram.buckets() == [("0.1", 2), ("1", 3), ("+Inf", 4)]
    assert histogram.sum == 7.65


def test_metrics_have_base_units_and_the_names_of_counters_end_with_total() -> None:
    assert len({metric.name for metric in ALL}) == len(ALL)
    for metric in ALL:
        assert metric.name.startswith("mainspring_") and metric.help.endswith(".")
        assert not any(unit in metric.name for unit in ("_ms", "milliseconds", "minutes", "percent"))
        assert "id" not in metric.labels
        assert not metric.name.endswith("_total")
        assert metric.kind != COUNTER or metric.series == (f"{metric.name}_total",)
