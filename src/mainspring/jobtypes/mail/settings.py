"""The SMTP server that takes mail, by the settings in a URL such as `smtps://user:password@mail.example.com:465`.

TLS is required if the server is not on this machine or there is a password, and certificates are checked, unless an
option of the URL says otherwise. The password is in no repr, message or log line; errors of this module never show a
part of the URL that could be one.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from mainspring.errors import ConfigurationError
from mainspring.jobtypes.mail.addresses import read_address
from mainspring.jobtypes.mail.senders import Senders
from mainspring.model.networks import is_loopback

URL_VARIABLE, FROM_VARIABLE = "MAINSPRING_SMTP_URL", "MAINSPRING_SMTP_FROM"
IMPLICIT, REQUIRED, AUTO, OFF = "implicit", "required", "auto", "off"
DEFAULT_TIMEOUT = 60.0
_PORTS = {"smtp": 587, "smtps": 465}
_OPTIONS = ("starttls", "verify", "ca", "timeout", "hello")
_LONGEST_TIMEOUT = 3600.0
_FORM = "smtps://user:password@host:465 or smtp://host:587"


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    """An SMTP server. `tls` is implicit (from the first byte), required, auto (when it is offered) or off."""

    host: str
    port: int
    tls: str = REQUIRED
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str | None = None
    """The sender of mail that names none; the login, if it is an address and no sender is set."""
    verify: bool = True
    ca: str | None = None
    """A file with the certificates to trust instead of the system's."""
    timeout: float = DEFAULT_TIMEOUT
    """The seconds that an attempt may take from the connection to the server's last reply."""
    hello: str | None = None
    """The name of this machine in HELO; None for its host name."""
    senders: Senders = field(default_factory=Senders)
    """The senders that mail may have beside `sender`."""

    @classmethod
    def parse(cls, url: str, sender: str | None = None, senders: str | None = None) -> SmtpSettings:
        """The settings in a URL. Its query: starttls=required|auto|off, verify=off, ca=FILE, timeout=60, hello=NAME.
        Characters of the password with a meaning in URLs are written as %40 and so on. `senders` are further addresses
        that mail may be from.
        """
        parts, port = _split(url)
        options = _options(parts)
        username, password = _credentials(parts)
        return cls(
            host=parts.hostname or "",
            port=port or _PORTS[parts.scheme],
            tls=_tls(parts.scheme, options.get("starttls"), password is None and _is_here(parts.hostname or "")),
            username=username,
            password=password,
            sender=_login_address(username) if sender is None else _sender(sender),
            verify=_verify(options.get("verify", "on")),
            ca=_ca(options.get("ca")),
            timeout=_timeout(options.get("timeout", f"{DEFAULT_TIMEOUT:g}")),
            hello=_hello(options.get("hello")),
            senders=Senders.parse(senders),
        )

    @property
    def address(self) -> str:
        """The server as it may be shown."""
        return f"{self.host}:{self.port}"

    def allows(self, sender: str) -> bool:
        """Whether mail may be from this plain address."""
        own = None if self.sender is None else read_address(self.sender, FROM_VARIABLE).addr_spec
        return self.senders.allow(sender) or (own is not None and own.lower() == sender.lower())

    def tls_context(self) -> ssl.SSLContext:
        """The TLS context of connections. Made once: it reads all certificates of the system."""
        return _context(self.ca, self.verify)


@lru_cache(maxsize=8)
def _context(ca: str | None, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _split(url: str) -> tuple[SplitResult, int | None]:
    """The URL's parts. The parser's own errors may quote a password, so they are not passed on."""
    if url.isascii() and url.isprintable() and " " not in url:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            pass
        else:
            if parts.scheme in _PORTS and parts.hostname and parts.path in ("", "/") and not parts.fragment:
                return parts, port
    raise ConfigurationError(
        f"{URL_VARIABLE} is not the URL of an SMTP server; write it as {_FORM}, with characters of the password "
        "other than letters, digits, '-', '.' and '_' as %40 and so on."
    )


def _options(parts: SplitResult) -> dict[str, str]:
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(pairs)
    if not set(options) <= set(_OPTIONS):
        # A ? in a password makes the rest of it an option: the message must not show it.
        raise ConfigurationError(f"{URL_VARIABLE} has an option that is not known; known are {', '.join(_OPTIONS)}.")
    if len(pairs) != len(options):
        raise ConfigurationError(f"{URL_VARIABLE} has an option twice.")
    return options


def _credentials(parts: SplitResult) -> tuple[str | None, str | None]:
    if parts.username is None and parts.password is None:
        return None, None
    if not parts.username or not parts.password:
        raise ConfigurationError(f"{URL_VARIABLE} needs both a user and a password, or neither; write it as {_FORM}.")
    return unquote(parts.username), unquote(parts.password)


def _is_here(host: str) -> bool:
    """Whether a server is on this machine, so that no network lies between."""
    return host == "localhost" or is_loopback(host)


def _tls(scheme: str, starttls: str | None, optional: bool) -> str:
    if scheme == "smtps":
        if starttls is not None:
            raise ConfigurationError(f"{URL_VARIABLE}: smtps:// is encrypted from the start; leave starttls out.")
        return IMPLICIT
    if starttls is None:
        return AUTO if optional else REQUIRED
    if starttls not in (REQUIRED, AUTO, OFF):
        raise ConfigurationError(f"{URL_VARIABLE}: starttls must be {REQUIRED}, {AUTO} or {OFF}, not {starttls!r:.50}.")
    return starttls


def _sender(text: str) -> str:
    try:
        return str(read_address(text, FROM_VARIABLE))
    except ValueError as error:
        raise ConfigurationError(f"{error}.") from None


def _login_address(username: str | None) -> str | None:
    try:
        return None if username is None or "@" not in username else str(read_address(username, "the user"))
    except ValueError:
        return None


def _verify(text: str) -> bool:
    if text not in ("on", "off"):
        raise ConfigurationError(f"{URL_VARIABLE}: verify must be on or off, not {text!r:.50}.")
    return text == "on"


def _ca(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        why = "is not there" if not Path(path).is_file() else f"cannot be used: {error}"
        raise ConfigurationError(f"{URL_VARIABLE}: the file of certificates {path!r:.200} {why}.") from None
    return path


def _timeout(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= _LONGEST_TIMEOUT:
        raise ConfigurationError(f"{URL_VARIABLE}: timeout must be from 1 to {_LONGEST_TIMEOUT:,.0f} seconds.")
    return value


def _hello(name: str | None) -> str | None:
    if name is not None and not (name.isascii() and name.isprintable() and name and " " not in name):
        raise ConfigurationError(f"{URL_VARIABLE}: hello must be a host's name.")
    return name
