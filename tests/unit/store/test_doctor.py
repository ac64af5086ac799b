"""What the doctor makes of the answers of a server, and of its URI."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.store import schema
from mainspring.store.doctor.server import (
    array_fields,
    data_members,
    is_full,
    is_loopback,
    majority_lag,
    members_down,
)
from mainspring.store.index_definitions import ARRAY_KEYS, JOB_INDEXES

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("[::1]", True),
        ("/run/mongodb-27017.sock", True),
        ("10.0.0.7", False),
        ("[2001:db8::1]", False),
        ("db.example.com", False),
        ("localhost.example.com", False),
    ],
)
def test_hosts_on_this_machine_are_told_from_others(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def test_nodes_with_data_are_counted_with_those_that_are_never_primary() -> None:
    assert data_members({"hosts": ["a:1", "b:1"], "passives": ["c:1"], "arbiters": ["d:1"]}) == 3
    assert data_members({}) == 1, "a server that is no replica set"


def test_the_plan_of_each_shard_tells_which_fields_of_an_index_are_arrays() -> None:
    def scan(**paths: list[str]) -> dict[str, Any]:
        return {"stage": "FETCH", "inputStage": {"stage": "IXSCAN", "indexName": "claim", "multiKeyPaths": paths}}

    plan = {"shards": [{"winningPlan": scan(run_at=["run_at"], queue=[])}, {"winningPlan": scan(queue=["queue"])}]}
    assert array_fields({"queryPlanner": {"winningPlan": plan}}, "claim") == {"run_at", "queue"}
    assert array_fields({"queryPlanner": {"winningPlan": plan}}, "lease") == set()


def test_the_keys_of_indexes_that_may_be_arrays_are_those_of_the_data_dictionary() -> None:
    rows = (line.split("|") for line in (schema.__doc__ or "").partition("## jobs.signals")[0].splitlines())
    arrays = {row[1].strip() for row in rows if len(row) > 3 and row[2].strip() == "array"}
    keys = {key for index in JOB_INDEXES for key in index.document["key"]}
    assert keys & arrays == ARRAY_KEYS


def test_a_node_that_the_others_do_not_reach_is_down() -> None:
    status = {"members": [{"name": "a:1", "health": 1.0}, {"name": "b:1", "health": 0.0}]}
    assert members_down(status) == ("b:1",)


def test_an_oplog_is_full_when_it_nears_its_largest_size() -> None:
    assert is_full({"size": 95, "maxSize": 100})
    assert not is_full({"size": 50, "maxSize": 100})
    assert not is_full({"size": 50})


def test_the_lag_of_the_majority_is_known_only_where_the_server_says_both_times() -> None:
    late = NOW - timedelta(seconds=20)
    assert majority_lag({"lastWriteDate": NOW, "majorityWriteDate": late}) == timedelta(seconds=20)
    assert majority_lag({"lastWriteDate": NOW}) is None
