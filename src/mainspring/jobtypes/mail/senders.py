"""The addresses that mail may be from: the configured sender, and those that MAINSPRING_SMTP_SENDERS allows.

A mail server that trusts this process signs every mail that it receives from it, so that a mail from any address of its
domain would count as genuine. Therefore an address is allowed, and not its whole domain, unless the setting names that.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.errors import ConfigurationError
from mainspring.jobtypes.mail.addresses import read_address

SENDERS_VARIABLE = "MAINSPRING_SMTP_SENDERS"
_ANY = "*"


@dataclass(frozen=True, slots=True)
class Senders:
    """Allowed addresses, and domains with all their addresses, both in lower case; or any."""

    addresses: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    any: bool = False

    @classmethod
    def parse(cls, text: str | None) -> Senders:
        """The senders in a setting: addresses and domains such as `@example.com` with commas between them, or `*`."""
        words = [word.strip().lower() for word in (text or "").split(",") if word.strip()]
        if words == [_ANY]:
            return cls(any=True)
        domains = {word[1:] for word in words if word.startswith("@")}
        for word in words:
            _check(f"x{word}" if word.startswith("@") else word)
        return cls(frozenset(word for word in words if not word.startswith("@")), frozenset(domains))

    def allow(self, address: str) -> bool:
        """Whether mail may be from this plain address."""
        plain = address.lower()
        return self.any or plain in self.addresses or plain.rpartition("@")[2] in self.domains


def _check(address: str) -> None:
    try:
        read_address(address, SENDERS_VARIABLE)
    except ValueError:
        raise ConfigurationError(
            f"{SENDERS_VARIABLE} lists addresses and domains, such as shop@example.com,@example.org, or is * for any."
        ) from None
