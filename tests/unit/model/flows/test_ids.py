"""The ids of the jobs of a flow: the same in every process, in the order of the items, and never of two jobs."""

import re

import pytest

from mainspring.errors import StepError
from mainspring.model.flows import ids
from mainspring.model.flows.family import Family

P = "0123456789abcdef01234567"


def family(name: str = "pages", **options: object) -> Family:
    return Family(P, name, P, name, **options)  # type: ignore[arg-type]


def test_ids_of_children_are_in_the_order_of_their_places() -> None:
    prefix = ids.child_prefix(P, "pages")
    made = [ids.indexed_id(prefix, place) for place in (0, 9, 10, 99_999_999)]
    assert made == sorted(made)
    assert made[0] == f"{P}.pages.00000000"
    with pytest.raises(StepError, match="100,000,000"):
        ids.indexed_id(prefix, 10**8)


def test_ids_have_no_slash_and_a_bounded_length() -> None:
    for name in ("plain", "a/b", "ünï", "x" * 500, "", "a b"):
        made = ids.child_prefix("p" * 1000, name)
        assert "/" not in made and "#" not in made and len(made) < 120
    assert ids.child_prefix("p" * 401, "a") != ids.child_prefix("q" * 401, "a")


def test_the_key_of_a_child_is_the_same_for_equal_values_and_must_be_plain() -> None:
    assert ids.key_digest({"a": 1, "b": 2}) == ids.key_digest({"b": 2, "a": 1})
    assert ids.key_digest("1") != ids.key_digest(1)
    with pytest.raises(StepError, match="plain value"):
        ids.key_digest(object())


def test_jobs_that_grow_a_wait_and_later_rounds_share_no_id_with_any_name() -> None:
    grown = ids.grown_prefix(P)
    for name in ("grow", "grown", "~grown", "r2", "~r2"):
        assert ids.child_prefix(P, name) != grown
        # The child "x" of a call "r2" is not the call "x" of the second round.
        assert ids.child_prefix(ids.child_prefix(P, name), "x") != ids.child_prefix(P, "x", 2)
    assert ids.child_prefix(P, "x", 2) != ids.child_prefix(P, "x", 3) != ids.child_prefix(P, "x")
    assert family(holds=("w#a",)).prefix == grown


def test_a_wait_names_its_waiter_also_when_that_has_a_number_sign() -> None:
    for waiter in (P, "a#b", "#"):
        for name in ("pages", "a#b", ""):
            for round in (1, 2):
                assert ids.waiter_of(ids.wait_id(waiter, name, round)) == waiter
    assert ids.wait_id(P, "pages", 2) != ids.wait_id(P, "pages")


@pytest.mark.parametrize("keyed", [False, True])
def test_the_range_of_a_map_has_its_children_and_not_the_jobs_below_them(keyed: bool) -> None:
    of = family(keyed=keyed)
    digest = ids.key_digest("k") if keyed else None
    child = of.child_id(7, digest)
    below = ids.indexed_id(ids.child_prefix(child, "more"), 0)

    def within(job_id: str) -> bool:
        bounds = of.range
        return bounds["$gte"] <= job_id < bounds["$lt"] and re.search(bounds["$regex"], job_id) is not None

    assert within(child) and of.has(child)
    assert not within(below) and not of.has(below)
    assert not within(ids.grown_prefix(child) + ".00000000")
    assert not within(ids.child_prefix(P, "pages2") + ".00000000")
