"""Secrets that webhooks and handlers refer to by name: what is known of one without its value. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from mainspring.errors import ConfigurationError

LARGEST = 32 * 1024
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Secret:
    """A stored secret without its value, which only the processes that have the key can read."""

    name: str
    kid: str
    """The id of the key that it is encrypted with."""
    version: int
    """1 at first; rises with every value that is put in the place of another."""
    created_at: datetime
    updated_at: datetime
    actor: str | None = None
    old_until: datetime | None = None
    """Until when requests are signed with the value before this one, too; None where it does not count any more."""


def check_secret_name(name: object) -> str:
    """A name as references can have it. One that is none is not repeated: it may be the value."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError("A secret's name is 1 to 64 letters, digits, '-' and '_'.")
    return name


def check_secret_value(value: object) -> str:
    """A value as it can be stored. No message shows it."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError("A secret's value is a text, and not empty.")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigurationError("A secret's value must be a text that UTF-8 can hold.") from None
    if length > LARGEST:
        raise ConfigurationError(f"A secret's value must not be larger than {LARGEST:,} bytes.")
    return value
