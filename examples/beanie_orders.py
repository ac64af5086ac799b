"""Beanie documents beside jobs: one client, one transaction, ids as arguments, and pydantic models as values.

    python examples/beanie_orders.py

A document is passed by its id: the handler reads it as it is when the job runs, and not as it was when the job was
scheduled. A pydantic model that is no document is passed as a value, and arrives as a model. It needs `beanie`, and
transactions: a replica set, of which one node is enough.
"""

import asyncio

from beanie import Document, PydanticObjectId, init_beanie
from pydantic import BaseModel

from mainspring import Scheduler

scheduler = Scheduler()


class Order(Document):
    """An order: a document of the application."""

    item: str
    shipped_to: str | None = None

    class Settings:
        name = "beanie_orders"


class Address(BaseModel):
    """A value that travels with the job."""

    street: str
    city: str


class Label(BaseModel):
    """The result of the job."""

    text: str


@scheduler.job("ship")
async def ship(order_id: PydanticObjectId, address: Address) -> Label:
    order = await Order.get(order_id)
    assert order is not None
    order.shipped_to = address.city
    await order.save()
    return Label(text=f"{order.item} to {address.street}, {address.city}")


async def place_order(order: Order, address: Address, in_stock: bool = True) -> str:
    """The order and its job exist together, or not at all."""
    async with scheduler.transaction() as tx:
        await order.insert(session=tx.session)
        assert order.id is not None
        job = await ship.options(session=tx.session).schedule(order.id, address)
        if not in_stock:
            raise LookupError(f"no {order.item} left")
    return job.id


async def main() -> None:
    await scheduler.connect()
    await init_beanie(database=scheduler.client.get_default_database("mainspring"), document_models=[Order])
    home = Address(street="Main Street 1", city="Springfield")
    book, shoes = Order(id=PydanticObjectId(), item="a book"), Order(id=PydanticObjectId(), item="shoes")
    async with scheduler:
        done = await scheduler.wait(await place_order(book, home), timeout=30)
        print(done.state, Label.model_validate(done.result))
        await book.sync()
        print("shipped to", book.shipped_to)
        try:
            await place_order(shoes, home, in_stock=False)
        except LookupError as error:
            print(error, "- order:", await Order.get(shoes.id))
        print(len([job async for job in scheduler.jobs(name="ship", state="pending")]), "jobs left")


if __name__ == "__main__":
    asyncio.run(main())
