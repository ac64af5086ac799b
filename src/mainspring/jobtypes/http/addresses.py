"""The addresses that jobs may connect to. Pure: numbers in, a reason out.

Every address that is not plainly public unicast is refused, so that unforeseen kinds of addresses are refused too. An
IPv6 address that carries an IPv4 one is judged by both: a gateway would connect to the inner one. `Allow` is the
operator's list of exceptions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from mainspring.errors import ConfigurationError
from mainspring.model.networks import Address, Network, is_in, list_entries, parse_network, unmapped

ALLOW_VARIABLE = "MAINSPRING_HTTP_ALLOW"

_V4_REFUSED = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "an address of this machine"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a private address of a carrier or a cloud"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "a cloud's metadata address"),
        ("169.254.0.0/16", "a link-local or metadata address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a reserved address"),
        ("192.88.99.0/24", "a reserved address"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "a reserved address"),
        ("198.51.100.0/24", "a reserved address"),
        ("203.0.113.0/24", "a reserved address"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)
_V6_REFUSED = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("::/96", "a loopback or an outdated IPv6 address"),  # IPv4-compatible ones, :: and ::1
        ("64:ff9b:1::/48", "an address of a local translator"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("ff00::/8", "a multicast address"),
        ("2001::/23", "a reserved or tunnel address"),  # Teredo and ORCHID are in here
        ("2001:db8::/32", "a reserved address"),
        ("2002::/16", "a tunnel address"),  # 6to4
        ("3fff::/20", "a reserved address"),
    )
)
_V6_PUBLIC = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0:0/96"))  # NAT64, and SIIT's old form
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_LOW = 0xFFFF_FFFF


def refusal(address: Address) -> str | None:
    """Why an address is refused as a target: "a loopback address"; None if it is a public one."""
    if isinstance(address, IPv4Address):
        return _refusal_of_v4(address)
    if address.scope_id is not None:
        return "an address with a zone"
    if address in _MAPPED or any(address in network for network in _TRANSLATED):
        return _refusal_of_v4(IPv4Address(int(address) & _LOW))
    for network, reason in _V6_REFUSED:
        if address in network:
            return reason
    if address not in _V6_PUBLIC or not address.is_global:
        return "a reserved address"
    if (int(address) >> 32) & _LOW in _ISATAP:
        return _refusal_of_v4(IPv4Address(int(address) & _LOW))
    return None


def _refusal_of_v4(address: IPv4Address) -> str | None:
    for network, reason in _V4_REFUSED:
        if address in network:
            return reason
    return None if address.is_global and not address.is_multicast else "a reserved address"


@dataclass(frozen=True, slots=True)
class Allow:
    """Targets that are allowed though they are not public: networks and names, each with an optional port."""

    networks: tuple[tuple[Network, int | None], ...] = ()
    names: frozenset[tuple[str, int | None]] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Allow:
        """Read a list such as `127.0.0.1,10.1.0.0/16,[::1]:8080,internal.example:8080`."""
        networks: list[tuple[Network, int | None]] = []
        names: set[tuple[str, int | None]] = set()
        for entry in list_entries(text):
            host, port = _split_port(entry)
            network = _network(host, entry)
            if network is not None:
                networks.append((network, port))
            else:
                names.add((_name(host, entry), port))
        return cls(tuple(networks), frozenset(names))

    def allows_name(self, host: str, port: int) -> bool:
        """Whether a name is on the list; if so, all its addresses are allowed."""
        name = host.lower().removesuffix(".")
        return (name, None) in self.names or (name, port) in self.names

    def allows_address(self, address: Address, port: int) -> bool:
        """Whether an address is on the list; an IPv4-mapped IPv6 address counts as the IPv4 address."""
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            return False
        return is_in(unmapped(address), (network for network, only in self.networks if only in (None, port)))


_ENTRY = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::([0-9]{1,5}))?")
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.count(":") > 1 and not entry.startswith("["):
        return entry, None  # an IPv6 address without brackets has no port
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise _bad_entry(entry)
    port = int(match[3]) if match[3] else None
    if port is not None and not 0 < port < 65536:
        raise _bad_entry(entry)
    return match[1] or match[2], port


def _network(host: str, entry: str) -> Network | None:
    try:
        return parse_network(host)
    except ValueError as error:
        if "/" in host or ":" in host:
            raise _bad_entry(entry, f" ({error})") from None
        return None


def _name(host: str, entry: str) -> str:
    try:
        name = host.lower().removesuffix(".").encode("idna").decode("ascii")
    except UnicodeError:
        raise _bad_entry(entry) from None
    if not _NAME.fullmatch(name) or is_numeric(name):
        raise _bad_entry(entry)
    return name


def is_numeric(host: str) -> bool:
    """Whether resolvers would read a host as a number: its last label is one, decimal, octal or hexadecimal."""
    last = host.removesuffix(".").rpartition(".")[2].lower()
    return last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None


def _bad_entry(entry: str, detail: str = "") -> ConfigurationError:
    return ConfigurationError(
        f"{ALLOW_VARIABLE} has {entry!r}{detail}; write addresses, networks and names, with a port if you like: "
        "127.0.0.1,10.1.0.0/16,[::1]:8080,internal.example:8080"
    )
