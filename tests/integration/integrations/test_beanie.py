"""The ids of Beanie's documents as arguments of handlers."""

from __future__ import annotations

import pytest
from bson import ObjectId

from mainspring import BadArguments, Scheduler

pytest.importorskip("beanie", reason="Beanie 2.2 is not for Python 3.14")

from beanie import PydanticObjectId


async def test_the_id_of_a_document_arrives_as_one(scheduler: Scheduler) -> None:
    @scheduler.job("x")
    async def x(order_id: PydanticObjectId) -> str:
        return f"{type(order_id).__name__} {order_id}"

    document = PydanticObjectId()
    async with scheduler:
        jobs = [await x.schedule(document), await scheduler.schedule("x", {"order_id": str(document)})]
        results = [(await job.wait(60)).result.split() for job in jobs]
    assert {arrived for _, arrived in results} == {str(document)}
    assert {kind for kind, _ in results} <= {"ObjectId", "PydanticObjectId"}, "also where it was given as a text"
    assert isinstance(jobs[0].data["order_id"], ObjectId)
    with pytest.raises(BadArguments):
        await scheduler.schedule("x", {"order_id": "no id"})
