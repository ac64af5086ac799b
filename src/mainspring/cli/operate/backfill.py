"""A backfill in parts, for `mainspring schedules backfill`, so that its progress can be shown and an interruption loses
nothing. Each part is a window of its own; a part that was made before has no further effect."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call
from mainspring.cli.support.exit_codes import INTERRUPTED, say
from mainspring.cli.terminal.output import many
from mainspring.cli.terminal.progress import Shown

_REACH = "The window cannot begin before the schedule was created."
_PART, _MOST = 200, 10_000


def nothing(window: Mapping[str, Any]) -> str:
    """The sentence for a window without a firing that needs a job."""
    if window["which"] == "all":
        return f"No firing in this window needs a job. {_REACH}"
    return f"No firing in this window needs a job. Without --all, only missed or skipped firings get one. {_REACH}"


def make_up(call: Call, schedule_id: str, window: Mapping[str, Any]) -> None:
    """Make the jobs of a window, and show the progress."""
    where = path("schedules", schedule_id, "backfill")
    made, start, more = 0, window["start"], True
    try:
        with Shown("backfill", None, quiet=call.as_json) as shown:
            while more:
                firings = _firings(call, where, {**window, "start": start})
                total, more = made + len(firings), len(firings) == _MOST
                for first in range(0, len(firings), _PART):
                    part = firings[first : first + _PART]
                    start = _after(part[-1]["at"])
                    done = call.api.post(where, {**window, "start": part[0]["at"], "end": start, "limit": _PART})
                    made += done["data"]["made"]
                    shown.update(made, None if more else total)
    except KeyboardInterrupt:
        say(f"{many(made, 'job')} made. Run the same command to continue; no job is made twice.")
        raise typer.Exit(INTERRUPTED) from None
    told = f"{many(made, 'job')} made." if made else nothing(window)
    call.done({"scheduleId": schedule_id, **window, "made": made, "done": True}, told)


def _firings(call: Call, where: str, window: Mapping[str, Any]) -> list[Any]:
    """The firings of a window that need a job, the first ones."""
    found: list[Any] = call.api.post(where, {**window, "preview": True, "limit": _MOST})["data"]["firings"]
    return found


def _after(instant: str) -> str:
    """The end of a window whose last firing is at this instant."""
    return (datetime.fromisoformat(instant) + timedelta(milliseconds=1)).isoformat()
