"""The whole table of a waiting job's decisions: `when`, and the ends of its predecessors."""

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.flows.decide import BadEnd, Ends, Move, decide
from mainspring.model.flows.waits import Predecessors, Waits, read_waits

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHENS = ("success", "done", "failure", None)
W, S, C, K = Move.WAIT, Move.START, Move.CANCEL, Move.SKIP
FAILED = BadEnd("f", "failed")
SKIPPED = BadEnd("s", "cancelled", skipped=True, because="first")
TABLE = {
    "all completed": (Ends(False), (S, S, K, S)),
    "one failed": (Ends(False, 1, FAILED), (C, S, S, S)),
    "one skipped": (Ends(False, 0, None, SKIPPED), (K, S, K, S)),
    "one failed, one skipped": (Ends(False, 1, FAILED, SKIPPED), (C, S, S, S)),
    "one live": (Ends(True), (W, W, W, W)),
    "one live, one failed": (Ends(True, 1, FAILED), (W, W, W, W)),
}
"""For each combination of ends, what becomes of the job, for each of WHENS; None: a handler that waits."""


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("case", TABLE)
def test_the_ends_of_predecessors_decide_by_when(case: str, when: str | None) -> None:
    ends, moves = TABLE[case]
    decision = decide(Waits((Predecessors("w#a", 2),), when=when), {"w#a": ends}, NOW)
    assert decision.move is moves[WHENS.index(when)]
    assert decision.fail_fast == ()


@pytest.mark.parametrize(("when", "move"), list(zip(WHENS, (C, S, S, S), strict=True)))
def test_with_fail_fast_too_many_failures_decide_while_others_are_live(when: str | None, move: Move) -> None:
    on = Predecessors("w#a", 3, tolerate=1, fail_fast=True)
    few = decide(Waits((on,), when=when), {"w#a": Ends(True, 1, FAILED)}, NOW)
    assert few.move is W
    many = decide(Waits((on,), when=when), {"w#a": Ends(True, 2, FAILED)}, NOW)
    assert (many.move, many.fail_fast) == (move, ("w#a",))


@pytest.mark.parametrize(("when", "move"), list(zip(WHENS, (S, S, K, S), strict=True)))
def test_tolerated_failures_are_none(when: str | None, move: Move) -> None:
    decision = decide(Waits((Predecessors("w#a", 3, tolerate=1),), when=when), {"w#a": Ends(False, 1, FAILED)}, NOW)
    assert decision.move is move


@pytest.mark.parametrize(("when", "move"), list(zip(WHENS, (C, S, S, S), strict=True)))
def test_a_deleted_predecessor_counts_as_failed(when: str | None, move: Move) -> None:
    waits = Waits((Predecessors("w#a", 1),), when=when, deleted=(("w#a", "gone"),))
    decision = decide(waits, {"w#a": Ends(False)}, NOW)
    assert decision.move is move
    assert decision.because == ("gone" if move is C else None)


def test_the_first_cause_is_passed_on_through_cancelled_jobs() -> None:
    cancelled = BadEnd("middle", "cancelled", because="root-cause")
    decision = decide(Waits((Predecessors("w#a", 1),), when="success"), {"w#a": Ends(False, 1, cancelled)}, NOW)
    assert (decision.move, decision.because) == (C, "root-cause")


def test_one_of_several_waits_that_has_a_live_predecessor_holds_all_back() -> None:
    waits = Waits((Predecessors("w#a", 1), Predecessors("w#b", 1)))
    assert decide(waits, {"w#a": Ends(False), "w#b": Ends(True)}, NOW).move is W
    assert decide(waits, {"w#a": Ends(False), "w#b": Ends(False)}, NOW).move is S


def test_a_time_that_is_over_and_a_signal_start_a_job_with_live_predecessors() -> None:
    on, live = (Predecessors("w#a", 1),), {"w#a": Ends(True)}
    assert decide(Waits(on, until=NOW), live, NOW).move is S
    assert decide(Waits(on, until=NOW + timedelta(seconds=1)), live, NOW).move is W
    assert decide(Waits(on, signals=("s",)), live, NOW, signalled=True).move is S


def test_waits_are_read_as_they_were_stored_and_nonsense_is_none() -> None:
    waits = Waits(
        (Predecessors("w#a", 3, 1, True), Predecessors("w#b", 1)),
        since=NOW,
        when="done",
        deleted=(("w#a", "gone"),),
        past=(Predecessors("w#c", 2),),
    )
    assert read_waits(waits.to_document()) == waits
    wrong: list[object] = [None, 7, {"ids": "x"}, []]
    for nonsense in wrong:
        assert read_waits(nonsense) is None
    assert read_waits({"ids": ["w#a", 7], "total": "many", "tolerate": [True]}) == Waits(
        (Predecessors("w#a", 0),), sealed=False
    )
