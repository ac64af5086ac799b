"""An agent that asks before it acts: a loop of model calls and tools that waits for a person, for days if need be.

    python examples/agent_approval.py

The answers of the model are steps, so that none is paid for twice. A tool is a job of its own. While the agent waits
for the person it holds no slot, and it goes on after a crash of any worker. Here the model is a function, and the
person a signal that this program sends.
"""

import asyncio
from typing import Any

from mainspring import Fail, JobContext, Scheduler

scheduler = Scheduler()
TURNS = 10


@scheduler.job("look-up", retry=3, timeout=60)
async def look_up(customer: str) -> dict[str, Any]:
    """A tool: what is known of a customer."""
    return {"customer": customer, "paid_cents": 990, "parcel": "lost"}


@scheduler.job("refund", guarantee="at_most_once")
async def refund(customer: str, cents: int) -> str:
    """A tool that must not act twice: if its worker dies, a person decides."""
    return f"{cents} cents were paid back to {customer}"


async def ask_the_model(complaint: str, notes: list[str]) -> dict[str, Any]:
    """In place of a model: look the customer up, ask, act, and say so."""
    moves: list[dict[str, Any]] = [
        {"do": "look-up", "customer": "ann"},
        {"do": "ask", "question": "May I pay 990 cents back?"},
        {"do": "refund", "customer": "ann", "cents": 990},
        {"do": "finish"},
    ]
    return moves[len(notes)]


@scheduler.job("handle-complaint", retry=5)
async def handle_complaint(ctx: JobContext, complaint: str) -> list[str]:
    notes: list[str] = []
    for turn in range(TURNS):
        match await ctx.step(f"think-{turn}", ask_the_model, complaint, notes):
            case {"do": "look-up", "customer": customer}:
                found = await ctx.call(f"look-up-{turn}", look_up, {"customer": customer})
                notes.append(f"the parcel of {found['customer']} is {found['parcel']}")
            case {"do": "ask", "question": question}:
                answer = await ctx.wait_for("approval", timeout="7d", name=f"ask-{turn}")
                if answer is None or not answer["approved"]:
                    raise Fail(f"not approved: {question}")
                notes.append(f"{answer['by']} has approved")
            case {"do": "refund", "customer": customer, "cents": cents}:
                notes.append(await ctx.call(f"refund-{turn}", refund, {"customer": customer, "cents": cents}))
            case _:
                return notes
    raise Fail(f"no end after {TURNS} turns")


async def question_of(job_id: str) -> None:
    """Wait until the agent waits for a person."""
    while True:
        waits = (await scheduler.get_job(job_id)).waits
        if waits is not None and waits.signals:
            return
        await asyncio.sleep(0.05)


async def main() -> None:
    async with scheduler:
        job = await handle_complaint.schedule(complaint="my parcel did not arrive")
        await question_of(job.id)
        print("the agent waits, and holds nothing")
        await scheduler.signal(job.id, "approval", {"approved": True, "by": "bob"}, id="click-1")
        for note in (await job.wait(timeout=60)).result:
            print("-", note)


if __name__ == "__main__":
    asyncio.run(main())
