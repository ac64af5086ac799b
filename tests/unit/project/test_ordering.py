"""How the tests are dealt out to several processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from harness.ordering import in_shares


@dataclass(frozen=True)
class Item:
    nodeid: str
    slow: bool = False
    fixturenames: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> Any:
        return (name == "slow" and self.slow) or None


ITEMS = [
    *(Item(f"tests/acceptance/test_a.py::test_{n}") for n in range(3)),
    *(Item(f"tests/api/test_b.py::test_{n}") for n in range(20)),
    *(Item(f"tests/cluster/test_c.py::test_{n}") for n in range(4)),
    *(Item(f"tests/cluster/test_e.py::test_{n}", fixturenames=("uri", "three_nodes")) for n in range(3)),
    *(Item(f"tests/unit/test_d.py::test_{n}", slow=n == 17) for n in range(30)),
]


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 100])
def test_every_test_is_dealt_out_once(processes: int) -> None:
    dealt = in_shares(ITEMS, processes)
    assert len(dealt) == len(ITEMS) and set(dealt) == set(ITEMS)


def test_all_shares_but_one_begin_with_tests_that_start_processes_and_slow_ones_come_before_others() -> None:
    dealt = in_shares(ITEMS, 4)
    shares = [[item.nodeid for item in dealt[place * 15 : place * 15 + 15]] for place in range(4)]
    assert shares[0][:3] == [f"tests/cluster/test_e.py::test_{n}" for n in range(3)]
    assert shares[1][:4] == [f"tests/cluster/test_c.py::test_{n}" for n in range(4)]
    assert shares[2][:3] == [f"tests/acceptance/test_a.py::test_{n}" for n in range(3)]
    assert shares[3][0].startswith("tests/unit")
    assert dealt[3].slow


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_one_share_takes_all_tests_on_three_nodes(processes: int) -> None:
    dealt = in_shares(ITEMS, processes)
    places = {place * processes // len(dealt) for place, item in enumerate(dealt) if item.fixturenames}
    assert places == {0}
