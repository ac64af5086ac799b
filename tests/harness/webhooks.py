"""What tests of webhook jobs share: facts of an attempt, secrets, and resolvers that answer as they are told."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import ClientSession
from aiohttp.abc import AbstractResolver, ResolveResult

from mainspring.jobtypes.http.addresses import Allow
from mainspring.jobtypes.http.guard import open_session
from mainspring.jobtypes.http.webhook import Facts, WebhookResponse, parse_request, send

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


async def secret(name: str) -> str:
    return SECRETS[name]


async def call(
    session: ClientSession, url: str, data: Mapping[str, Any] | None = None, **fields: Any
) -> WebhookResponse:
    """Check a request and make one attempt at it."""
    return await send(session, parse_request({"url": url, **fields}), facts(data), secret)


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
