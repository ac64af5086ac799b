"""The flows of the demonstration: one with a failed branch, one that maps a list, one that waits for a person.

They are started by the public verbs when the day is stored, and the workers of `mainspring up` run them.
"""

from __future__ import annotations

from mainspring.client.scheduler import Scheduler

_TAGS = ["demonstration"]
_CATEGORIES = ("bicycles", "books", "clothing", "garden", "kitchen", "music", "toys", "travel")


async def start_flows(scheduler: Scheduler) -> None:
    """Start each flow once."""
    await _start_nightly(scheduler)
    await _start_catalogue(scheduler)
    await _start_release(scheduler)


async def _start_nightly(scheduler: Scheduler) -> None:
    """Its check of the stock fails: the nodes after it are cancelled, and an alert is sent."""
    flow = scheduler.flow("nightly-pipeline", {"warehouse": "W1"}, tags=_TAGS)
    orders = flow.add("extract-rows", {"table": "orders"}, name="extract orders")
    stock = flow.add("extract-rows", {"table": "stock"}, name="extract stock")
    shards = flow.map(
        "aggregate-shard", orders.result["shards"], item="shard", after=orders, name="aggregate orders", tolerate=1
    )
    check = flow.add("check-totals", {"rows": stock.result["rows"]}, after=stock, name="check stock")
    load = flow.add("load-warehouse", {"warehouse": "W1"}, after=[shards, check], name="load warehouse")
    flow.add("load-warehouse", {"warehouse": "archive"}, after=shards, name="archive orders")
    flow.add("generate-report", {"kind": "stock"}, after=load, name="stock report")
    alert = {"to": "on-call@example.com", "subject": "The nightly pipeline failed"}
    flow.add("send-email", alert, after=load, when="failure", name="alert")
    await flow.start()


async def _start_catalogue(scheduler: Scheduler) -> None:
    """A map that goes on for a quarter of an hour: two of its jobs run at a time."""
    flow = scheduler.flow("rebuild-catalogue", tags=_TAGS)
    listing = flow.add("extract-rows", {"table": "products"}, name="list products")
    items = [{"category": name, "part": part} for name in _CATEGORIES for part in range(1, 13)]
    pages = flow.map("render-page", items, after=listing, name="render pages", tolerate=0.05)
    flow.add("load-warehouse", {"warehouse": "web"}, after=pages, name="publish pages")
    await flow.start()


async def _start_release(scheduler: Scheduler) -> None:
    """It waits for the signal "approved", which a person sends from the page of the flow."""
    flow = scheduler.flow("price-change", {"percent": 3}, tags=_TAGS)
    prepare = flow.add("extract-rows", {"table": "prices"}, name="prepare prices")
    approve = flow.add("approve-prices", {"rows": prepare.result["rows"]}, after=prepare, name="approval")
    flow.add("load-warehouse", {"warehouse": "shop"}, after=approve, name="change prices")
    await flow.start()
