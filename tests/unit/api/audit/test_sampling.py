"""Rows that any client can cause are admitted within bounds, and counted beyond them."""

from __future__ import annotations

from mainspring.api.audit.sampling import OTHERS, Sampler


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make(clock: Clock, each: int = 2, most: int = 3) -> Sampler:
    return Sampler("x", each=each, most=most, seconds=60, clock=clock)


def test_each_client_and_all_together_have_a_bound_in_a_window() -> None:
    sampler = make(clock := Clock())
    assert [sampler.admits(who) for who in "aaabbc"] == [True, True, False, True, False, False]
    clock.now += 60
    assert [sampler.admits(who) for who in "aaa"] == [True, True, False]


def test_what_was_left_out_is_told_once_its_window_is_over() -> None:
    sampler = make(clock := Clock())
    for who in "aaaaabbb":
        sampler.admits(who)
    assert sampler.take_left_out() == {}
    clock.now += 60
    assert sampler.take_left_out() == {"a": 3, "b": 2}
    assert sampler.take_left_out() == {}


def test_at_the_end_all_that_was_left_out_is_told() -> None:
    sampler = make(Clock())
    for who in "aaaaa":
        sampler.admits(who)
    assert sampler.take_left_out(all=True) == {"a": 3}


def test_many_clients_are_not_told_apart() -> None:
    sampler = make(clock := Clock(), each=1, most=1)
    for number in range(5001):
        sampler.admits(str(number))
    clock.now += 60
    left = sampler.take_left_out()
    assert (len(left), left.total(), left[OTHERS]) == (101, 5000, 4900)
