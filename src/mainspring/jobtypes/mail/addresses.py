"""Addresses of mail as users write them, and the check that they inject no header or command.

Only forms that every server understands are accepted: a name or none, and an address of ASCII letters in plain form.
Quoted local parts, groups, comments and addresses in other scripts are refused rather than guessed at; a guess could
send mail to the wrong person.
"""

from __future__ import annotations

import re
import unicodedata
from email.headerregistry import Address

LONGEST_NAME = 200
_LONGEST_LOCAL, _LONGEST_DOMAIN, _LONGEST_LIST = 64, 253, 50_000
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_SPEC = re.compile(rf"({_ATOM}(?:\.{_ATOM})*)@({_LABEL}(?:\.{_LABEL})*)")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_NAMED = re.compile(rf'({_QUOTED}|[^"<>]*)\s*<([^<>]*)>')
# A comma in quotes belongs to a name; the text between two other commas is one address.
_BETWEEN_COMMAS = re.compile(rf'(?:{_QUOTED}|[^",])+')
# Controls, line and paragraph separators, and halves of characters.
_UNSENDABLE = ("Cc", "Zl", "Zp", "Cs")


def check_header_text(text: str, what: str) -> str:
    """Refuse a text with line ends or other control characters, which must not be in a header; return the text."""
    for character in text:
        if unicodedata.category(character) in _UNSENDABLE:
            raise ValueError(f"{what} must not contain line ends or control characters (it has {character!r})")
    return text


def read_addresses(value: object, what: str) -> tuple[str, ...]:
    """Read one address, several with commas between them, or a list; return each in the form in which it is shown."""
    if isinstance(value, str):
        texts = _split(check_header_text(value, what), what)
    elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        texts = list(value)
    else:
        raise ValueError(f'{what} must be an address such as "Ada <ada@example.com>", or a list of them')
    return tuple(dict.fromkeys(str(read_address(text, what)) for text in texts))


def read_address(text: str, what: str) -> Address:
    """Read one address: `ada@example.com`, `Ada <ada@example.com>` or `"Lovelace, Ada" <ada@example.com>`."""
    named = _NAMED.fullmatch(check_header_text(text, what).strip())
    name, spec = (_unquoted(named[1].strip()), named[2]) if named else ("", text.strip())
    found = _SPEC.fullmatch(spec)
    if found is None or len(found[1]) > _LONGEST_LOCAL or len(found[2]) > _LONGEST_DOMAIN:
        raise ValueError(
            f"{what} has {text!r:.200}, which is no address that mail can be sent to; write it as ada@example.com or "
            f"Ada <ada@example.com>, with a domain in other scripts in its ASCII form (xn--…)"
        )
    if len(name) > LONGEST_NAME:
        raise ValueError(f"{what} has a name of more than {LONGEST_NAME} characters")
    return Address(display_name=name, addr_spec=spec)


def _split(text: str, what: str) -> list[str]:
    if len(text) > _LONGEST_LIST:
        raise ValueError(f"{what} has more than {_LONGEST_LIST:,} characters")
    parts = _BETWEEN_COMMAS.findall(text)
    if not parts or ",".join(parts) != text:
        raise ValueError(f"{what} has {text!r:.200}; give one address, or several with single commas between them")
    return parts


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith('"') else name
