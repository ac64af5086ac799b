"""Writes headers for the wire: long ones in several lines, other scripts as encoded words.

The standard library's own folding, in the versions that are supported, encodes the comma between two long names, so
that an address gets lost, and drops quotes. This module writes every address on a line of its own, and a text either
as plain ASCII, cut at its blanks, or encoded as a whole.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from email.headerregistry import Address, AddressHeader, HeaderRegistry, UnstructuredHeader
from email.policy import EmailPolicy
from typing import Any

_END = "\r\n"
_LINE, _LONGEST_WORD = 76, 900
# 45 bytes are 60 letters of base64; with its prefix and suffix an encoded word may have 75.
_WORD_BYTES = 45
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")


class Literal(UnstructuredHeader):
    """A header whose text is taken literally: a part that looks like an encoded word is not decoded."""

    @classmethod
    def parse(cls, value: str, kwds: dict[str, Any]) -> None:
        kwds["decoded"] = value
        kwds["parse_tree"] = cls.value_parser("")


class Folding(EmailPolicy):
    """The policy of sent mail: CRLF, seven bits, and headers folded by this module."""

    def fold(self, name: str, value: Any) -> str:
        if isinstance(value, AddressHeader):
            return f"{name}: {fold_addresses(value.addresses)}{_END}"
        if isinstance(value, Literal):
            return f"{name}: {fold_text(str(value), len(name) + 2)}{_END}"
        folded: str = super().fold(name, value)
        return folded

    def fold_binary(self, name: str, value: Any) -> bytes:
        return self.fold(name, value).encode("ascii")


def _registry() -> HeaderRegistry:
    registry = HeaderRegistry(default_class=Literal)
    registry.map_to_type("subject", Literal)  # type: ignore[arg-type]
    return registry


MAIL = Folding(linesep=_END, cte_type="7bit", utf8=False, header_factory=_registry())


def fold_addresses(addresses: tuple[Address, ...]) -> str:
    """Addresses, each on its line."""
    return f",{_END} ".join(_written(address) for address in addresses)


def fold_text(text: str, indent: int) -> str:
    """A text after a header's name, which takes `indent` characters of the first line."""
    if not text:
        return ""
    words = text.split(" ")
    if not _is_plain(text) or any(not word or len(word) > _LONGEST_WORD for word in words):
        return _encoded(text)
    lines, line = [], words[0]
    for word in words[1:]:
        if indent + len(line) + 1 + len(word) > _LINE:
            lines.append(line)
            line, indent = word, 1
        else:
            line += f" {word}"
    return f"{_END} ".join([*lines, line])


def _written(address: Address) -> str:
    name = address.display_name
    if not name:
        return address.addr_spec
    return f"{_phrase(name)} <{address.addr_spec}>"


def _phrase(name: str) -> str:
    """A name before an address."""
    if not _is_plain(name) or len(name) > _LINE // 2:
        return _encoded(name)
    if _ATOMS.fullmatch(name):
        return name
    escaped = re.sub(r'(["\\])', r"\\\1", name)
    return f'"{escaped}"'


def _is_plain(text: str) -> bool:
    """Whether a reader takes the text literally; a part that looks like an encoded word would be decoded."""
    return text.isascii() and text.isprintable() and "=?" not in text


def _encoded(text: str) -> str:
    return f"{_END} ".join(f"=?utf-8?b?{b64encode(part).decode()}?=" for part in _parts(text))


def _parts(text: str) -> Iterator[bytes]:
    """The text in pieces of whole characters; readers drop the blanks between two encoded words."""
    part = b""
    for character in text:
        encoded = character.encode()
        if len(part) + len(encoded) > _WORD_BYTES:
            yield part
            part = b""
        part += encoded
    yield part
