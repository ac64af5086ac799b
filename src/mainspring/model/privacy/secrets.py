"""Secrets that webhooks and handlers refer to by name: their fields without the value, and which jobs may send them to
which origins. Pure.

A secret names the origins that it may be sent to; without any, as earlier releases stored it, no webhook can use it. It
may name the queues, and the prefixes of job names, that may use it. Without these every job may, but a caller of the
service whose key has a scope cannot make such a job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.privacy.origins import is_among, plain_origin

LARGEST = 32 * 1024
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Secret:
    """A stored secret without its value. Only processes that have the encryption key can read the value."""

    name: str
    key_id: str
    """The id of the key that it is encrypted with."""
    version: int
    """1 at first; rises whenever a new value replaces the one before."""
    created_at: datetime
    updated_at: datetime
    actor: str | None = None
    old_until: datetime | None = None
    """Until when requests are signed with the value before this one, too; None where that is not valid any more."""
    origins: tuple[str, ...] = ()
    """The origins that webhooks may send it to; none if empty."""
    scope: Scope = EVERYTHING
    """The queues and the prefixes of names of the jobs that may use it."""

    @property
    def queues(self) -> tuple[str, ...] | None:
        return self.scope.queues

    @property
    def prefixes(self) -> tuple[str, ...] | None:
        return self.scope.prefixes


@dataclass(frozen=True, slots=True)
class Lent:
    """A secret that a job may use: its values, the current one first, and the origins that it may be sent to."""

    values: tuple[str, ...] = field(repr=False)
    origins: tuple[str, ...]

    def may_go_to(self, origin: str) -> bool:
        return is_among(origin, self.origins)


class SecretRefused(ConfigurationError):
    """A job may not use a secret. A missing secret and a secret of other jobs are refused in the same words, since the
    caller that made the job reads its error."""


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A job that is about to send a secret, or a signature made with it, to an origin."""

    job_id: str
    job_name: str
    queue: str
    origin: str

    def check(self, name: str, secret: Secret | None) -> None:
        """Refuse a secret that is not for this job, or not for this origin."""
        if secret is None or not secret.origins or not secret.scope.allows(self.queue, self.job_name):
            raise SecretRefused(
                f"There is no secret {name!r} that jobs of this queue and name may use; store it with the origins, "
                "queues and prefixes that it is for."
            )
        if not is_among(self.origin, secret.origins):
            raise SecretRefused(
                f"The secret {name!r} may not be sent to {plain_origin(self.origin)}: that is none of its origins."
            )


def check_secret_name(name: object) -> str:
    """Check a secret's name. The error does not show an invalid name: it may be the value."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError("A secret's name is 1 to 64 letters, digits, '-' and '_'.")
    return name


def check_secret_value(value: object) -> str:
    """Check a secret's value. No message shows it."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError("A secret's value is a text, and not empty.")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigurationError("A secret's value must be a text that UTF-8 can hold.") from None
    if length > LARGEST:
        raise ConfigurationError(f"A secret's value must not be larger than {LARGEST:,} bytes.")
    return value
