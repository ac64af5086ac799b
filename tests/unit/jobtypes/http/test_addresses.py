"""Which addresses are public, in whatever clothes, and what an allow-list lets through."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ConfigurationError
from mainspring.jobtypes.http.addresses import Allow, refusal
from mainspring.model.networks import parse_address

REFUSED_V4 = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
]
REFUSED_V6 = [
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b:1::7f00:1",
    "64:ff9b:1::808:808",
    "2001::1",
    "2001:0:4136:e378::1",
    "2001:db8::1",
    "2001:10::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%lo",
    "2606:4700::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
    "4000::1",
    "2606:4700::5efe:7f00:1",
    "2606:4700::200:5efe:a00:1",
]
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "100.63.255.255",
    "100.128.0.1",
    "172.32.0.1",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("text", [*REFUSED_V4, *REFUSED_V6])
def test_an_address_that_is_not_public_is_refused(text: str) -> None:
    assert refusal(ip_address(text)) is not None


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_not_refused(text: str) -> None:
    assert refusal(ip_address(text)) is None


@pytest.mark.parametrize("text", REFUSED_V4)
@pytest.mark.parametrize("prefix", [0xFFFF << 32, 0x0064_FF9B << 96, 0xFFFF << 48], ids=["mapped", "nat64", "siit"])
def test_an_address_within_an_ipv6_address_is_found(text: str, prefix: int) -> None:
    assert refusal(IPv6Address(prefix | int(IPv4Address(text)))) is not None


@given(st.integers(0, 2**32 - 1))
def test_what_is_passed_is_global_for_the_standard_library_too(number: int) -> None:
    address = IPv4Address(number)
    if refusal(address) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.integers(0, 2**128 - 1))
def test_an_ipv6_address_that_is_passed_is_global_unicast(number: int) -> None:
    address = IPv6Address(number)
    if refusal(address) is None and address.ipv4_mapped is None:
        assert address.is_global
        assert address.sixtofour is None
        assert address.teredo is None


@pytest.mark.parametrize("text", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "１２７.0.0.1", "1.2.3", "a", ""])
def test_an_odd_spelling_is_no_address(text: str) -> None:
    assert parse_address(text) is None


def test_an_allow_list_has_addresses_networks_and_names_with_ports() -> None:
    allow = Allow.parse("127.0.0.1, 10.1.0.0/16,Internal.Example:8080 ,[::1]:81,fd00::/8,10.9.9.9:22,plain")
    assert allow.allows_address(ip_address("127.0.0.1"), 1)
    assert allow.allows_address(ip_address("::ffff:127.0.0.1"), 1)
    assert allow.allows_address(ip_address("10.1.255.9"), 1)
    assert allow.allows_address(ip_address("fd00::9"), 1)
    assert allow.allows_address(ip_address("::1"), 81)
    assert allow.allows_address(ip_address("10.9.9.9"), 22)
    assert allow.allows_name("internal.example.", 8080)
    assert allow.allows_name("PLAIN", 5)


def test_an_allow_list_lets_nothing_else_through() -> None:
    allow = Allow.parse("127.0.0.1,10.1.0.0/16,internal.example:8080,[::1]:81")
    for text, port in (("127.0.0.2", 1), ("10.2.0.1", 1), ("::1", 80), ("64:ff9b::7f00:1", 1), ("::127.0.0.1", 1)):
        assert not allow.allows_address(ip_address(text), port)
    for name, port in (("internal.example", 80), ("x.internal.example", 8080), ("internal.example.evil", 8080)):
        assert not allow.allows_name(name, port)
    assert not Allow.parse("").allows_address(ip_address("127.0.0.1"), 80)


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1/8", "127.1", "0x7f000001", "a b", "host:0", "host:99999", "host:x", "[::1", "::g", "http://a", "*"],
)
def test_an_entry_that_makes_no_sense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"MAINSPRING_HTTP_ALLOW has .*10\.1\.0\.0/16"):
        Allow.parse(text)
