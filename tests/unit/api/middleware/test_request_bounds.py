"""So many requests a minute: a window that slides."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.api.middleware.authentication import UnknownKeys
from mainspring.api.middleware.request_bounds import Window, counted_as


class Time:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_each_has_so_many_of_his_own() -> None:
    window = Window(3, Time(100.0))
    assert [window.hit("a") > 0 for _ in range(5)] == [False, False, False, True, True]
    assert window.hit("b") == 0


def test_what_was_refused_is_not_counted_and_asking_is_not_either() -> None:
    time = Time(60.0)
    window = Window(2, time)
    for _ in range(10):
        window.hit("a")
    assert window.wait("b") == window.wait("b") == 0
    time.now += 120
    assert window.wait("a") == 0
    assert [window.hit("a") > 0 for _ in range(3)] == [False, False, True]


def test_a_new_minute_does_not_allow_twice_as_many() -> None:
    time = Time(119.0)
    window = Window(10, time)
    assert not any(window.hit("a") for _ in range(10))
    time.now = 121.0
    assert window.hit("a") > 0
    time.now = 150.0  # half of those of the minute before count by now
    assert [window.hit("a") > 0 for _ in range(7)] == [False] * 5 + [True] * 2


@pytest.mark.parametrize("seed", range(20))
def test_whoever_waits_as_long_as_he_is_told_is_let_in_and_not_before(seed: int) -> None:
    dice = random.Random(seed)
    time = Time(dice.uniform(0, 1000))
    window = Window(dice.randint(1, 50), time)
    for _ in range(300):
        time.now += dice.expovariate(1)
        wait = window.hit("a")
        if wait:
            time.now += wait - 0.01
            assert window.wait("a") > 0
            time.now += 0.02
            assert window.hit("a") == 0


@given(st.lists(st.floats(0, 90), max_size=60), st.integers(1, 8))
def test_never_many_more_in_any_minute_than_are_allowed(pauses: list[float], most: int) -> None:
    time = Time()
    window = Window(most, time)
    let_in: list[float] = []
    for pause in pauses:
        time.now += pause
        if not window.hit("a"):
            let_in.append(time.now)
    for start in let_in:
        # As if they had come evenly: a client that came all at once may be forgotten a little early.
        assert sum(start <= at < start + 60 for at in let_in) < 2 * most


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("unix", "unix"),
    ],
)
def test_an_address_is_counted_by_itself_and_one_of_ipv6_by_its_network(host: str, counted: str) -> None:
    assert counted_as(host) == counted


def test_a_wrong_key_is_remembered_for_a_moment_and_only_the_last_ones_are() -> None:
    time = Time()
    unknown = UnknownKeys(time)
    unknown.add("wrong")
    assert "wrong" in unknown and "other" not in unknown
    for number in range(999):
        unknown.add(f"n{number}")
    assert "wrong" in unknown
    unknown.add("one more")
    assert "wrong" not in unknown and "n0" in unknown
    time.now = 10.0
    assert "n0" not in unknown
