"""Documents of schema version 1, as workers read them before a migration."""

from __future__ import annotations

from mainspring.store.jobs.stored_job import StoredJob


def test_the_guarantee_of_a_job_of_version_1_counts_when_it_is_claimed() -> None:
    old = {"_id": "a", "executes": "at_most_once"}
    assert StoredJob(old).guarantee == "at_most_once"
    assert StoredJob({**old, "guarantee": "at_least_once"}).guarantee == "at_least_once"
