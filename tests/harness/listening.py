"""What a client really says to the server: a listener that keeps the commands it has seen started."""

from __future__ import annotations

from typing import Any

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

_NOT_ASKED_FOR = ("hello", "isMaster", "ping", "endSessions")


class Listener(CommandListener):
    """Give it to a client as `event_listeners=[listener]`."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in _NOT_ASKED_FOR:
            self.commands.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass

    def named(self, name: str, collection: str | None = None) -> list[dict[str, Any]]:
        """The commands of this name, on this collection if it is given."""
        return [c for c in self.commands if name in c and collection in (None, c[name])]

    def clear(self) -> None:
        self.commands.clear()
