"""Jobs and data that change together or not at all, by MongoDB's transactions (a replica set; one node is enough).

    python examples/transactional.py

Placing an order and scheduling its invoice is one transaction, so there is no order without its job and no job without
its order. The handler's writes and the job's completion are one too: however often the handler must be run, because
of a crash or a lost connection, each order is invoiced exactly once.
"""

import asyncio

from mainspring import JobContext, Scheduler

scheduler = Scheduler()


@scheduler.job("invoice")
async def invoice(ctx: JobContext, order: str) -> None:
    async with ctx.transaction() as tx:
        await tx.db["orders"].update_one({"_id": order}, {"$inc": {"invoices": 1}}, session=tx.session)
        tx.result = f"invoice for {order}"


async def place_order(order: str, stock: int) -> str:
    async with scheduler.transaction() as tx:
        await tx.db["orders"].insert_one({"_id": order, "invoices": 0}, session=tx.session)
        job = await scheduler.schedule("invoice", {"order": order}, session=tx.session)
        if not stock:
            raise LookupError("out of stock")
    return job.id


async def main() -> None:
    async with scheduler:
        orders = scheduler.client.get_default_database("mainspring")["orders"]
        await orders.delete_many({"_id": {"$in": ["A-1", "A-2"]}})
        done = await scheduler.wait(await place_order("A-1", stock=5), timeout=30)
        print(done.state, done.result, await orders.find_one({"_id": "A-1"}))
        try:
            await place_order("A-2", stock=0)
        except LookupError as error:
            print(error, "- order:", await orders.find_one({"_id": "A-2"}))
        print(len([job async for job in scheduler.jobs(state="pending", name="invoice")]), "jobs left")


if __name__ == "__main__":
    asyncio.run(main())
