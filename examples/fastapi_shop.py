"""A shop on FastAPI: an order and the job that ships it are stored in one transaction.

    python examples/fastapi_shop.py       makes three requests to itself, with a worker in the same process
    uvicorn examples.fastapi_shop:app     serves it; the dashboard and the HTTP API are under /jobs

A request that fails after it has stored the order and its job leaves neither. It needs the extra `api`, and
transactions: a replica set, of which one node is enough.
"""

import asyncio
import os
import sys
from typing import Annotated, Any

import uvicorn
from aiohttp import ClientSession
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, PositiveInt

import mainspring
from mainspring import JobContext, JobNotFound, Scheduler
from mainspring.integrations.fastapi import get_scheduler, lifespan

scheduler = Scheduler()
app = FastAPI(title="Shop", lifespan=lifespan(scheduler, worker=True))
app.mount("/jobs", mainspring.asgi(scheduler))
Scheduling = Annotated[Scheduler, Depends(get_scheduler)]


class Order(BaseModel):
    """An order as the customer sends it."""

    item: str
    quantity: PositiveInt


@scheduler.job("ship-order")
async def ship_order(ctx: JobContext, order_id: str, order: Order) -> None:
    """The order is marked as shipped if and only if the job completes."""
    async with ctx.transaction() as tx:
        await tx.db["orders"].update_one({"_id": order_id}, {"$set": {"shipped": True}}, session=tx.session)
        tx.result = f"shipped {order.quantity} {order.item}"


@app.post("/orders/{order_id}", status_code=202)
async def place_order(order_id: str, order: Order, scheduler: Scheduling) -> dict[str, str]:
    async with scheduler.transaction() as tx:
        await tx.db["orders"].replace_one({"_id": order_id}, order.model_dump(), upsert=True, session=tx.session)
        job = await ship_order.options(session=tx.session).schedule(order_id=order_id, order=order)
        if order.item not in ("books", "pens"):  # found out late: the transaction is rolled back
            raise HTTPException(409, f"{order.item} are out of stock")
    return {"job": job.id}


@app.get("/orders/jobs/{job_id}")
async def job_of_order(job_id: str, scheduler: Scheduling) -> dict[str, Any]:
    try:
        job = await scheduler.get_job(job_id)
    except JobNotFound as error:
        raise HTTPException(404, str(error)) from None
    return {"state": job.state, "result": job.result}


async def customer(url: str) -> None:
    """Order something that is there, and something that is not."""
    async with ClientSession(url) as session:
        async with session.post("/orders/A-1", json={"item": "books", "quantity": 2}) as answer:
            job_id = (await answer.json())["job"]
            print(answer.status, "ordered")
        await scheduler.wait(job_id, timeout=30)
        async with session.get(f"/orders/jobs/{job_id}") as answer:
            print(answer.status, await answer.json())
        async with session.post("/orders/A-2", json={"item": "shoes", "quantity": 1}) as answer:
            print(answer.status, (await answer.json())["detail"])
    orders = scheduler.client.get_default_database("mainspring")["orders"]
    print("order:", await orders.find_one({"_id": "A-2"}))
    print(len([job async for job in scheduler.jobs(name="ship-order", state="pending")]), "jobs left")


async def main() -> None:
    server = uvicorn.Server(uvicorn.Config(app, port=int(os.environ.get("PORT", "0")), log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0.05)
    if not serving.done():
        port = server.servers[0].sockets[0].getsockname()[1]
        await customer(f"http://127.0.0.1:{port}")
    server.should_exit = True
    await serving


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
