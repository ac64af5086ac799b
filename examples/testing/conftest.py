"""Fixtures for the tests of the shop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shop
from mainspring import Scheduler


@pytest.fixture
def mainspring_scheduler(mainspring_bind: Callable[[Scheduler], Scheduler]) -> Scheduler:
    """The shop's scheduler, bound to the test's database; the setting `mainspring_scheduler = shop:scheduler` of pytest
    would do the same."""
    return mainspring_bind(shop.scheduler)


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    """Forget what other tests have done."""
    for done in (shop.payments, shop.mails, shop.reports):
        done.clear()
