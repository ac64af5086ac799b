"""A scheduler in whose process names are looked up by the DNS server of a test, as a hostile one would answer."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any

import dns.message
import dns.query

from mainspring import Scheduler

_PORT = int(os.environ["TEST_DNS_PORT"])
_system = socket.getaddrinfo


def _asked(host: Any) -> bool:
    """Whether the system would ask a DNS server for this name."""
    name = host.decode() if isinstance(host, bytes) else host
    if name is None or name.rstrip(".").lower() in ("", "localhost", socket.gethostname().lower()):
        return False
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return True
    return False


def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
    if not _asked(host):
        return _system(host, port, family, type, proto, flags)
    found = []
    for kind in ("A", "AAAA"):
        answer = dns.query.udp(dns.message.make_query(host, kind), "127.0.0.1", timeout=5, port=_PORT)
        addresses = [record.address for rrset in answer.answer for record in rrset]
        found += [one for address in addresses for one in _system(address, port, family, type, proto)]
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return found


socket.getaddrinfo = getaddrinfo
scheduler = Scheduler(concurrency=20, poll_interval=0.2)


@scheduler.job("nothing")
async def nothing() -> None:
    """A scheduler without handlers of its own is refused by the command."""
