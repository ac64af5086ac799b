"""IP addresses, and lists of addresses and networks as operators write them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@lru_cache(1024)
def parse_address(text: str) -> Address | None:
    """An address in its one ordinary spelling; None for everything else (`127.1`, `0x7f000001`, names)."""
    try:
        return ip_address(text) if text.isascii() else None
    except ValueError:
        return None


def unmapped(address: Address) -> Address:
    """An IPv4 address that is written as an IPv6 one (`::ffff:10.0.0.1`) as the IPv4 address; others unchanged."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def parse_host(text: str) -> Address | None:
    """The address in a text, unmapped; None where the text is not an address."""
    address = parse_address(text)
    return None if address is None else unmapped(address)


def is_loopback(text: str) -> bool:
    """Whether a text is a loopback address."""
    address = parse_address(text)
    return address is not None and address.is_loopback


def is_in(address: Address | None, networks: Iterable[Network]) -> bool:
    """Whether one of the networks contains an address."""
    return address is not None and any(address in network for network in networks)


def parse_network(text: str) -> Network:
    """An address or a network; raises ValueError with the reason where a text is neither."""
    return ip_network(text)


def list_entries(text: str) -> list[str]:
    """The entries of a list with commas, without spaces and empty entries."""
    return [entry for part in text.split(",") if (entry := part.strip())]


def read_proxies(text: str) -> tuple[Network, ...]:
    """The addresses and networks in a comma-separated list; ValueError names a wrong one."""
    return tuple(_network(word) for word in list_entries(text))


def _network(word: str) -> Network:
    try:
        network = parse_network(word)
    except ValueError:
        raise ValueError(
            f"{word!r:.100} is neither an address nor a network; write them as 10.0.0.5,10.1.0.0/16,fd00::/8"
        ) from None
    if network.prefixlen == 0:
        raise ValueError(
            f"{word!r:.100} is every address, so that any client could claim any address; name the proxies"
        )
    return network
