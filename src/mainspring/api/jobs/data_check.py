"""Checks the data of a job against the JSON Schema of its handler, before it is stored, in any live worker.

A service seldom has the handlers itself. It refuses data that the handler would surely refuse, with the name of the
field; where no live worker has described the handler, or old and new workers run, nothing is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.api.dependencies import Caller
from mainspring.api.problems import Problem
from mainspring.model.jobs.reserved_names import QUEUES


async def check_data(caller: Caller, name: str, data: Mapping[str, Any], version: int | None = None) -> None:
    """Refuse data that does not fit the handler of a name. Webhooks and mails have checks of their own."""
    if name in QUEUES:
        return
    misfit = await caller.backend.find_misfit(name, data, version)
    if misfit is not None:
        raise Problem(422, str(misfit), field=misfit.field)
