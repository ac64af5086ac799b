"""Ways to write a target on this machine or its network, from public lists of such tricks: none may be connected to."""

from __future__ import annotations

import socket

from aiohttp.abc import ResolveResult

from harness.webhooks import Answers

_HOSTS = r"""
127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 0177.0.0.1 017700000001 127.0.0.1. 127.000.000.001 127.0.0.2
0.0.0.0 0 00 0x0 [::] [::1] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::FFFF:7F00:1] [0:0:0:0:0:ffff:7f00:1]
[::127.0.0.1] [::ffff:0:127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::127.0.0.1] [64:ff9b:1::7f00:1] [2002:7f00:1::]
[2002:7f00:0001::1] [2001:0:7f00:1::] [2001:0:4136:e378:8000:63bf:80ff:fffe] [fe80::1%25lo] [fe80::1%lo] [::1%25lo]
[fe80::1] [fd00:ec2::254] [fc00::1] [ff02::1] [2001:db8::1] [100::1] [::ffff:169.254.169.254] [64:ff9b::a9fe:a9fe]
[2002:a9fe:a9fe::] [::ffff:10.0.0.1] [2606:4700::5efe:7f00:1] [::ffff:0.0.0.0]
169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 10.0.0.1 10.255.255.255 172.16.0.1
172.31.255.255 192.168.0.1 100.64.0.1 192.0.0.1 198.18.0.1 198.19.255.255 224.0.0.1 239.255.255.255 240.0.0.1
255.255.255.255 192.0.2.1 198.51.100.1 203.0.113.1 2852039166 0xa9fea9fe 0251.0376.0251.0376
localhost LOCALHOST localhost. LocalHost. a.localhost metadata.google.internal metadata.google.internal.
good.example@127.0.0.1 good.example:80@127.0.0.1 127.0.0.1\@good.example good.example\@127.0.0.1
１２７.０.０.１ ①②⑦.⓪.⓪.① 127。0。0。1 １２７．０．０．１ ⓛⓞⓒⓐⓛⓗⓞⓢⓣ
127%2e0%2e0%2e1 %31%32%37.0.0.1 127.0.0.1%00.good.example
127.0.0.1%23 [::1]. [::1]x [127.0.0.1] [0x7f.1] [::ffff:127.1] [::1 ::1
rebound.example private.example metadata.example six.example mapped.example nat64.example zone.example odd.example
"""
HOSTS = [
    *_HOSTS.split(),
    "127.0.0.1\t",
    "127.0.0.1\n",
    "127.0.0.1\r\nX:1",
    " 127.0.0.1",
    "127.0.0.1\x00.good.example",
    "\u00ad127.0.0.1",
]
SHAPES = [
    "http://127.0.0.1:{port}#@good.example/",
    "http://127.0.0.1:{port}?@good.example/",
    "http:127.0.0.1:{port}",
    "http:/127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "hTTps://127.0.0.1:{port}/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_GET",
    "ftp://127.0.0.1:{port}/",
    "dict://127.0.0.1:{port}/",
    "ws://127.0.0.1:{port}/",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "javascript:127.0.0.1:{port}",
]
NAMES = {
    "rebound.example": ["127.0.0.1", "::1"],
    "private.example": ["10.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "six.example": ["::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "zone.example": ["fe80::1%1", "::1%1"],
    "odd.example": ["127.1", "localhost"],
}


def urls(port: int) -> list[str]:
    """All of them, for a canary's port."""
    return [f"http://{host}:{port}/" for host in HOSTS] + [shape.format(port=port) for shape in SHAPES]


class Book(Answers):
    """Knows the names above; any other belongs to this machine, as a hostile resolver would have it."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.answers = [NAMES.get(host, ["127.0.0.1"])]
        return await super().resolve(host, port, family)
