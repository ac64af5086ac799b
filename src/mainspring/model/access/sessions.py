"""Sessions of the dashboard: short texts that stand for an API key, signed and with an end. Pure.

An open session is not stored: a server that has the secret recognises its signature. Sessions that were closed before
their end are stored, by their ids. A session names a key, not its secret, so that it is invalid once that key is
revoked; see `Key.honours`. Each has a token against cross-site requests (CSRF), which is derived from it and is not in
the cookie.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from mainspring.errors import ConfigurationError

LONGEST_SESSION = timedelta(days=90)
_VERSION = "s1"
_SHORTEST_SECRET = 32
# Two servers' clocks may differ a little.
_AHEAD = timedelta(minutes=1)
_FORM = re.compile(
    rf"{_VERSION}\.([0-9A-Za-z]{{1,64}})\.([0-9]{{1,10}})\.([0-9]{{1,10}})\.[0-9a-f]{{24}}\.[0-9a-f]{{64}}", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Session:
    """A session whose signature is valid: its id, the id of its API key, its beginning and its end."""

    id: str
    key_id: str
    issued_at: datetime
    expires_at: datetime


def new_session_secret() -> bytes:
    """A secret for a server to sign sessions with."""
    return secrets.token_bytes(_SHORTEST_SECRET)


def open_session(secret: bytes, key_id: str, now: datetime, lasts: timedelta) -> str:
    """The text of a new session."""
    if not timedelta(seconds=1) <= lasts <= LONGEST_SESSION:
        raise ConfigurationError(f"A session lasts from a second to {LONGEST_SESSION.days} days, not {lasts}.")
    issued = int(now.timestamp())
    signed = f"{_VERSION}.{key_id}.{issued}.{issued + int(lasts.total_seconds())}.{secrets.token_hex(12)}"
    text = f"{signed}.{_sign(secret, 'session', signed)}"
    if not _FORM.fullmatch(text):
        raise ConfigurationError("A session stands for the id of an API key, which is letters and digits.")
    return text


def read_session(known: Sequence[bytes], text: str, now: datetime) -> Session | None:
    """The session of a text, if one of the known secrets has signed it and it is not over; otherwise None."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    signed, signature = text.rsplit(".", 1)
    genuine = [hmac.compare_digest(_sign(secret, "session", signed), signature) for secret in known]
    issued, expires = (datetime.fromtimestamp(int(found[number]), UTC) for number in (2, 3))
    if not any(genuine) or not issued <= now + _AHEAD or now >= expires or expires - issued > LONGEST_SESSION:
        return None
    return Session(sha256(signed.encode()).hexdigest(), found[1], issued, expires)


def csrf_token(secret: bytes, session: str) -> str:
    """The token that requests of this session carry in a header that other sites cannot set."""
    return _sign(secret, "csrf", session)


def csrf_matches(known: Sequence[bytes], session: str, given: str | None) -> bool:
    """Whether a request has its session's token."""
    if not isinstance(given, str) or not given.isascii():
        return False
    matches = [hmac.compare_digest(csrf_token(secret, session), given) for secret in known]
    return any(matches)


def _sign(secret: bytes, purpose: str, text: str) -> str:
    if len(secret) < _SHORTEST_SECRET:
        raise ConfigurationError(f"The secret that sessions are signed with needs at least {_SHORTEST_SECRET} bytes.")
    return hmac.new(secret, f"mainspring {purpose}\n{text}".encode(), "sha256").hexdigest()
