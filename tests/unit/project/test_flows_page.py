"""The page about flows: its table of decisions and its limits are those of the code."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.pages import ROOT
from mainspring.config.settings import Settings
from mainspring.model.flows.decide import BadEnd, Ends, decide
from mainspring.model.flows.graph import LARGEST_FLOW, MOST_EDGES, MOST_NODES
from mainspring.model.flows.ids import MOST_ITEMS
from mainspring.model.flows.waits import MOST_WAITS, Predecessors, Waits
from mainspring.store.codec import MAX_STEPS

PAGE = (ROOT / "docs" / "explain" / "flows.md").read_text("utf-8")
NOW = datetime(2026, 11, 17, tzinfo=UTC)
WAIT = "waiter#wait"
WHENS = ("success", "done", "failure", None)
STAYS = "one failed and was retried after the decision"
"""The row about jobs that wait no longer: no decision is made for them. tests/integration/flows/test_flow_retry.py has
it."""


def failed(state: str, live: bool = False, skipped: bool = False) -> Ends:
    also = BadEnd("b", "cancelled", skipped=True, because="c") if skipped else None
    return Ends(live, 1, BadEnd("a", state), also)


CASES: dict[str, tuple[Ends, dict[str, Any]]] = {
    "all completed": (Ends(live=False), {}),
    "one failed": (failed("failed"), {}),
    "one was cancelled": (failed("cancelled"), {}),
    "one expired": (failed("expired"), {}),
    "one was deleted by hand": (Ends(live=False), {"deleted": ((WAIT, "a"),)}),
    "one was skipped, none ended badly": (
        Ends(live=False, first_skipped=BadEnd("b", "cancelled", skipped=True, because="c")),
        {},
    ),
    "one failed, one was skipped": (failed("failed", skipped=True), {}),
    "one failed, which is tolerated": (failed("failed"), {"tolerate": 1}),
    "one is live": (Ends(live=True), {}),
    "one failed, one is live": (failed("failed", live=True), {}),
    "one failed, one is live, `fail_fast`": (failed("failed", live=True), {"fail_fast": True}),
    "one failed and was retried before the decision": (Ends(live=True), {}),
}
WORDS = {"start": "starts", "cancel": "is cancelled", "skip": "is skipped", "wait": "waits"}


def rows() -> dict[str, list[str]]:
    """The table of decisions: the predecessors' ends, and a word for each `when`."""
    table = PAGE.partition("<!-- decisions -->\n")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {first: rest for first, *rest in cells}


def decision(case: str, when: str | None) -> str:
    ends, given = CASES[case]
    on = Predecessors(WAIT, 3, given.get("tolerate", 0), given.get("fail_fast", False))
    waits = Waits((on,), when=when, deleted=given.get("deleted", ()))
    return WORDS[decide(waits, {WAIT: ends}, NOW).move.value]


@pytest.mark.parametrize("case", CASES)
def test_the_table_says_what_is_decided(case: str) -> None:
    said = rows()[case]
    # A node of a graph tolerates nothing and waits for all: the page has a dash there.
    expected = ["–" if "–" in said and when else decision(case, when) for when in WHENS]
    assert said == expected
    assert ("–" in said) == bool(CASES[case][1].keys() & {"tolerate", "fail_fast"})


def test_every_row_of_the_table_is_compared() -> None:
    assert rows().keys() == {*CASES, STAYS}
    assert rows()[STAYS] == ["stays"] * len(WHENS)


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    limits = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.partition("## Limits")[2], re.M))
    assert limits["nodes of a declared flow"].startswith(f"{MOST_NODES:,};")
    assert limits["edges of a declared flow"] == f"{MOST_EDGES:,}"
    assert limits["a declared flow with the data of all its nodes"].startswith(f"{LARGEST_FLOW // 2**20} MiB;")
    assert limits["items of one map"] == f"{MOST_ITEMS:,}"
    assert limits["calls and maps that one handler waits for at once"] == f"{MOST_WAITS}"
    assert limits["steps of a job, and all their results together"] == (
        f"{MAX_STEPS:,}, and `max_steps_size` ({Settings().max_steps_size // 2**20} MiB by default)"
    )
