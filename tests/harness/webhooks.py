"""What tests of webhook jobs share: facts of an attempt, secrets, and resolvers that answer as they are told."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aiohttp import ClientSession
from aiohttp.abc import AbstractResolver, ResolveResult

from mainspring.jobtypes.http.addresses import Allow
from mainspring.jobtypes.http.connector import open_session
from mainspring.jobtypes.http.webhook import Facts, WebhookResponse, parse_request, send
from mainspring.model.privacy.secrets import Lent, SecretRefused

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
SECRETS = {
    "token": "canary-token-value",
    "signer": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "next": "whsec_" + "QUJD" * 10,
    "broken": "canary\r\nX-Evil: 1",
    "weak": "canary-weak",
}


def facts(data: Mapping[str, Any] | None = None, **changes: Any) -> Facts:
    return Facts(
        **{"job_id": "job-1", "attempt": 2, "scheduled_at": NOW, "data": data or {}, "token": 7, "now": NOW, **changes}
    )


class Vault:
    """Lends secrets out of a dict: each to the origins that are said, or anywhere."""

    def __init__(self, values: Mapping[str, Sequence[str]] | None = None, *origins: str) -> None:
        self._values = {name: (value,) for name, value in SECRETS.items()} if values is None else values
        self._origins = origins or ("*",)

    async def lend(self, name: str, origin: str) -> Lent:
        lent = Lent(tuple(self._values.get(name, ())), self._origins)
        if not lent.values or not lent.may_go_to(origin):
            raise SecretRefused(f"There is no secret {name!r} for {origin}.")
        return lent


VAULT = Vault()


async def call(
    session: ClientSession, url: str, data: Mapping[str, Any] | None = None, **fields: Any
) -> WebhookResponse:
    """Check a request and make one attempt at it."""
    return await send(session, parse_request({"url": url, **fields}), facts(data), VAULT)


def local_session(resolver: AbstractResolver | None = None) -> ClientSession:
    """A session for sinks on this machine."""
    return open_session(Allow.parse("127.0.0.1,::1"), resolver)


class Answers(AbstractResolver):
    """Answers every question with the next list of addresses, and the last one again and again."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not addresses:
            raise OSError("no such name")
        return [
            ResolveResult(hostname=host, host=one, port=port, family=socket.AF_UNSPEC, proto=0, flags=0)
            for one in addresses
        ]

    async def close(self) -> None:
        pass
