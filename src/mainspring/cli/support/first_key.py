"""The first API key, which `mainspring serve` creates if there is none, so that the service is never open by accident.

It is stored for this user before it is valid. At a terminal it is printed once; elsewhere the output is most likely a
log that is kept and that others read, so that only the path of its file is printed.
"""

from __future__ import annotations

import sys

from mainspring.cli.support.database import actor
from mainspring.cli.support.key_files import StagedKey, folder_of_keys
from mainspring.client.scheduler import Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import Key
from mainspring.model.access.audit import Entry

NAME = "first key, made by serve"


class FirstKey:
    """Creates the first key, and describes it."""

    def __init__(self, database: str = "") -> None:
        self._database = database
        """The options that name the database in a command."""
        self._staged: StagedKey | None = None
        self._text: str | None = None
        self.made = False

    async def make(self, scheduler: Scheduler) -> None:
        """Create the key, unless another process does. Raise ConfigurationError if it can be neither stored nor
        printed."""
        await scheduler.audit.check()
        made = await scheduler.api_keys.create_first(NAME, self._keep, actor=actor())
        if made is None:
            if self._staged is not None:
                self._staged.discard()
            return
        if self._staged is not None:
            self._staged.publish()
        self.made = True
        await ServiceBackend(scheduler).note_change(Entry(actor(), "key.create", made.key.id, after=_facts(made.key)))

    def describe(self) -> list[str]:
        """Lines for the banner."""
        if not self.made:
            return []
        told = (
            "created, since there was none (admin)" if self._text is None else f"{self._text} (admin; not shown again)"
        )
        lines = [f"  first key {told}"]
        if self._staged is not None:
            lines.append(f"  stored    {self._staged.path}; mainspring keys show{self._database} prints it")
        return lines

    def _keep(self, text: str) -> None:
        self._text = text if sys.stdout.isatty() else None
        try:
            self._staged = StagedKey(text)
        except (OSError, RuntimeError) as error:
            if self._text is None:
                raise ConfigurationError(_cannot_store(error)) from error


def _facts(key: Key) -> dict[str, object]:
    """The audit entry of a key."""
    return {"name": key.name, "role": key.role, "scope": key.scope.to_document()}


def _cannot_store(error: Exception) -> str:
    try:
        place = str(folder_of_keys())
    except RuntimeError:
        place = "the home of this user"
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (
        f"There is no API key yet, and the first one cannot be stored in {place} ({why}). Set XDG_CONFIG_HOME to a "
        "folder that this user may write, or make a key first: mainspring keys create NAME --role admin (on the "
        "same database)."
    )
