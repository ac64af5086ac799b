"""Which service or which database a command calls: by its options, or by the environment.

A command that only looks must not start a database that was not there: a wrong folder would look like an empty one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mainspring.cli.calls.door import Door
from mainspring.cli.calls.network import Network
from mainspring.config.settings import EMBEDDED, choose_uri
from mainspring.errors import ConfigurationError

URL_VARIABLE, KEY_VARIABLE = "MAINSPRING_URL", "MAINSPRING_API_KEY"
_DATA = "data"
"""The folder with MongoDB's own files, in that of an embedded server."""


@dataclass(frozen=True, slots=True)
class Place:
    """The options that name a service or a database."""

    url: str | None = None
    key: str | None = None
    uri: str | None = None
    folder: Path | None = None

    def service(self, environment: Mapping[str, str] = os.environ) -> tuple[str, str | None] | None:
        """The URL of the service with the API key, or None if it is a database."""
        named = [name for name in ("url", "uri", "folder") if getattr(self, name) is not None]
        if len(named) > 1:
            raise ConfigurationError(f"Give one of --url, --uri and --folder, not {' and '.join(named)}.")
        url = self.url or (None if named else environment.get(URL_VARIABLE) or None)
        if url is not None:
            return url, self.key or environment.get(KEY_VARIABLE) or None
        if self.key is not None:
            raise ConfigurationError("--key is for a service: give its --url, too. A database needs no API key.")
        return None

    def door(self, *, creates: bool = False, environment: Mapping[str, str] = os.environ) -> Door:
        """The door to it. With `creates`, the folder of an embedded server may be a new one."""
        service = self.service(environment)
        if service is not None:
            return Network(*service)
        from mainspring.cli.calls.in_process import InProcess  # here: a call of a service needs none of the library

        return InProcess(self.database(creates=creates))

    def database(self, *, creates: bool = False) -> str:
        """The URI of the database. With `creates`, the folder of an embedded server may be a new one."""
        if self.uri is not None and self.uri.startswith(("http://", "https://")):
            raise ConfigurationError("--uri is for a database, and this is a service: give it as --url.")
        uri = choose_uri(self.uri if self.folder is None else f"{EMBEDDED}{self.folder}")
        return uri if creates else existing(uri, "a service by --url, a MongoDB by --uri or a folder by --folder")


def existing(uri: str, ways: str = "a MongoDB by --uri or a folder by --folder") -> str:
    """A URI as it is, if it does not name an embedded server that does not exist yet. `ways` are the options that name
    another place."""
    if uri.startswith(EMBEDDED) and uri != EMBEDDED:
        folder = Path(uri[len(EMBEDDED) :]).expanduser()
        if not (folder / _DATA).is_dir():
            why = "holds none" if folder.is_dir() else "does not exist"
            raise ConfigurationError(
                f"There is no database here: the folder {folder} {why}. Name {ways}; or start one: mainspring up"
            )
    return uri
