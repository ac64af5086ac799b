"""Pydantic models as arguments of handlers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field

from mainspring import BadArguments, Scheduler


class Line(BaseModel):
    """A part of a model."""

    price: Decimal
    at: datetime


class Order(BaseModel):
    """A model with an alias, a nested model and a default."""

    number: int = Field(alias="orderNumber")
    lines: list[Line]
    note: str = "none"


ORDER = Order(orderNumber=7, lines=[Line(price=Decimal("1.10"), at=datetime(2030, 1, 1, 0, 0, 0, 5, tzinfo=UTC))])


async def test_a_model_arrives_as_a_model_and_is_returned_as_its_document(scheduler: Scheduler) -> None:
    seen: list[Any] = []

    @scheduler.job("x")
    async def x(order: Order, others: list[Order], maybe: Order | None = None) -> Order:
        seen.append((order, others, maybe))
        return order

    async with scheduler:
        done = await (await x.schedule(ORDER, [ORDER])).wait(60)
    assert seen == [(ORDER, [ORDER], None)] and isinstance(seen[0][0].lines[0], Line)
    assert Order.model_validate(done.result) == ORDER


async def test_the_fields_of_a_model_may_be_given_as_a_document(scheduler: Scheduler) -> None:
    @scheduler.job("x")
    def x(order: Order) -> int:
        return order.number

    async with scheduler:
        job = await scheduler.schedule("x", {"order": {"orderNumber": 7, "lines": []}})
        assert (await job.wait(60)).result == 7
    with pytest.raises(BadArguments, match="orderNumber"):
        await scheduler.schedule("x", {"order": {"number": 7, "lines": []}})
