"""A small shop, to be tested: an order is paid in a step and shipped by a child, a customer gets mail, nights a report.

The lists stand for the bank, the mail server and the archive.
"""

from __future__ import annotations

from mainspring import JobContext, Retry, Scheduler

scheduler = Scheduler()

payments: list[str] = []
mails: list[str] = []
reports: list[str] = []


@scheduler.job("order", retry=Retry(attempts=3, delay="1m", jitter=0))
async def order(ctx: JobContext, order_id: str, to: str) -> str:
    receipt: str = await ctx.step("pay", pay, order_id)
    ctx.progress(50, "paid")
    parcel = await ctx.call("ship", "ship", {"order_id": order_id})
    once = mail.options(queue="mail", dedupe_key=f"shipped-{order_id}", dedupe_window="1d")
    await once.schedule(to=to, text=f"shipped in {parcel}")
    return receipt


def pay(order_id: str) -> str:
    payments.append(order_id)
    return f"receipt of {order_id}"


@scheduler.job("ship")
def ship(order_id: str) -> str:
    return f"parcel {order_id}"


@scheduler.job("mail", retry=2)
async def mail(to: str, text: str) -> None:
    mails.append(f"{to}: {text}")


@scheduler.cron("30 2 * * *", timezone="Europe/Berlin")
@scheduler.job("report")
async def report(ctx: JobContext) -> None:
    assert ctx.scheduled_for is not None
    reports.append(ctx.scheduled_for.date().isoformat())
