"""A DNS server on loopback that answers as it is told, differently each time where that is wanted, without a time to
live."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

Answers = Sequence[str]
"""The addresses of a name; none for a name that there is not."""


class Names(asyncio.DatagramProtocol):
    """Answers each question for the A records of a name with the next of its answers, and then from the first on; any
    other name belongs to this machine."""

    def __init__(self, names: Mapping[str, Sequence[Answers]]) -> None:
        self._names = names
        self.asked: Counter[str] = Counter()
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    @property
    def port(self) -> int:
        assert self._transport is not None
        port: int = self._transport.get_extra_info("sockname")[1]
        return port

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        asked = question.question[0]
        addresses = self._answer(asked.name.to_text(omit_final_dot=True).lower(), asked.rdtype == dns.rdatatype.A)
        kind, version = ("A", 4) if asked.rdtype == dns.rdatatype.A else ("AAAA", 6)
        fitting = [one for one in addresses if ipaddress.ip_address(one).version == version]
        if not addresses:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif fitting:
            answer.answer.append(dns.rrset.from_text_list(asked.name, 0, "IN", kind, fitting))
        assert self._transport is not None
        self._transport.sendto(answer.to_wire(), addr)

    def _answer(self, name: str, first: bool) -> Answers:
        """The records of both kinds come from the same answer, the first of which is asked for first."""
        turns = self._names.get(name, [["127.0.0.1"]])
        self.asked[name] += first
        return turns[max(0, self.asked[name] - 1) % len(turns)]


@asynccontextmanager
async def naming(names: Mapping[str, Sequence[Answers]]) -> AsyncIterator[Names]:
    """Such a server, for as long as this lasts."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: Names(names), ("127.0.0.1", 0))
    try:
        yield server
    finally:
        transport.close()
