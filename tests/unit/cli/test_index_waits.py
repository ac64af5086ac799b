"""Commands that start while MongoDB builds indexes wait for them, and say so once."""

from __future__ import annotations

import pytest

from mainspring import IndexesBuilding, Unavailable
from mainspring.cli.support import either_scheduler
from mainspring.cli.support.either_scheduler import when_built


async def test_a_start_is_tried_again_until_the_indexes_are_built(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(either_scheduler, "_LOOK_EVERY", 0)
    outcomes: list[Exception | None] = [IndexesBuilding("jobs.claim"), IndexesBuilding("jobs.claim"), None]

    async def start() -> None:
        if (error := outcomes.pop(0)) is not None:
            raise error

    await when_built(start)
    assert outcomes == []
    assert [record.getMessage() for record in caplog.records] == ["Waiting for indexes before the start: jobs.claim"]


async def test_any_other_error_ends_the_start() -> None:
    async def start() -> None:
        raise Unavailable("away")

    with pytest.raises(Unavailable, match="away"):
        await when_built(start)
