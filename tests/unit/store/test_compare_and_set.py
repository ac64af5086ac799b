"""Compare and set: attempts until one succeeds, and one error that names what is contended."""

from __future__ import annotations

import pytest

from mainspring.errors import Unavailable
from mainspring.store.compare_and_set import compare_and_set


async def test_the_first_attempt_with_an_outcome_ends_it() -> None:
    async def attempt(number: int) -> str | None:
        return f"attempt {number}" if number >= 2 else None

    assert await compare_and_set(attempt, "calendar 'work'") == "attempt 2"


async def test_an_outcome_that_is_false_is_an_outcome() -> None:
    async def attempt(number: int) -> int | None:
        return 0

    assert await compare_and_set(attempt, "calendar 'work'") == 0


async def test_the_error_names_what_is_contended_and_the_attempts() -> None:
    async def attempt(number: int) -> None:
        return None

    with pytest.raises(Unavailable, match=r"^Too much contention on dedupe key 'k' \(7 attempts\); try again\.$"):
        await compare_and_set(attempt, "dedupe key 'k'", 7)


async def test_there_is_a_pause_between_attempts_and_none_before_the_first() -> None:
    done: list[str] = []

    async def attempt(number: int) -> bool | None:
        done.append(f"attempt {number}")
        return True if number == 2 else None

    async def pause(number: int) -> None:
        done.append(f"pause {number}")

    await compare_and_set(attempt, "schedule 'nightly'", pause=pause)
    assert done == ["attempt 0", "pause 0", "attempt 1", "pause 1", "attempt 2"]
