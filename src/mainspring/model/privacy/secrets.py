"""Secrets that webhooks and handlers refer to by name: what is known of one without its value, and which jobs may send
it where. Pure.

A secret names the origins that it may be sent to; without any, as earlier releases stored it, no webhook can use it. It
may name the queues, and the prefixes of job names, that may use it. Without these every job may, but a caller of the
service that reaches some queues or names only cannot make such a job.
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
    """A stored secret without its value, which only the processes that have the key can read."""

    name: str
    key_id: str
    """The id of the key that it is encrypted with."""
    version: int
    """1 at first; rises with every value that is put in the place of another."""
    created_at: datetime
    updated_at: datetime
    actor: str | None = None
    old_until: datetime | None = None
    """Until when requests are signed with the value before this one, too; None where it does not count any more."""
    origins: tuple[str, ...] = ()
    """Where webhooks may send it; nowhere, where it does not say."""
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
    """A secret that a job may use: its values, the current one first, and where it may be sent."""

    values: tuple[str, ...] = field(repr=False)
    origins: tuple[str, ...]

    def may_go_to(self, origin: str) -> bool:
        return is_among(origin, self.origins)


class SecretRefused(ConfigurationError):
    """A job may not use a secret. A missing secret and a secret of other jobs are refused in the same words, since the
    caller that made the job reads its error."""


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A job that is about to send a secret, or what is signed with it, to an origin."""

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
