"""Tasks."""

from __future__ import annotations

from typing import Any

from mainspring import Fail
from mainspring.integrations.django.interface import task

ran: list[str] = []


@task(priority=100)
def add(a: int, b: int = 0) -> int:
    return a + b


@task(priority=-100)
async def add_async(a: int) -> int:
    return a + 1


@task(takes_context=True)
def told(context: Any, word: str) -> dict[str, Any]:
    return {"word": word, "id": context.task_result.id, "attempt": context.attempt}


@task(takes_context=True)
def second_time(context: Any) -> int:
    if context.attempt == 1:
        raise ValueError("not yet")
    return int(context.attempt)


@task
def fail(text: str) -> None:
    raise LookupError(text)


@task
def give_up() -> None:
    raise Fail("no use")


@task
def unsuitable() -> object:
    return object()


@task
def note(word: str) -> None:
    ran.append(word)
