"""One attempt at sending a mail, and its outcome.

`MailRejected` means that the server will not take this mail, now or later: another attempt would not help. `MailFailed`
means another obstacle: the connection, the login, a busy server. A mail that the server refused for some recipients is
sent: the others have it, and would get it twice from another attempt; the result names the refused recipients.

A connection that breaks before the server's last reply leaves open whether the server has taken the mail. The attempt
counts as failed, so that the mail may arrive twice, with the same Message-ID, but is not lost.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mainspring.errors import ConfigurationError, MainspringError
from mainspring.jobtypes.mail.addresses import read_address
from mainspring.jobtypes.mail.message import EmailRequest, MailFacts
from mainspring.jobtypes.mail.senders import SENDERS_VARIABLE
from mainspring.jobtypes.mail.settings import AUTO, FROM_VARIABLE, IMPLICIT, OFF, REQUIRED, URL_VARIABLE, SmtpSettings

if TYPE_CHECKING:
    from aiosmtplib import SMTP

_PERMANENT = 500
_LONGEST_REPLY = 500
# The mail is sent once the server has accepted it; QUIT may fail, and must not take long.
_GOODBYE = 2.0


class MailRejected(MainspringError):
    """The server refused this mail for good."""


class MailFailed(MainspringError):
    """The mail could not be handed over this time; it may be tried again."""

    outage = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A recipient that the server refused, and the server's text. A temporary refusal may end later."""

    address: str
    code: int
    reply: str

    @property
    def temporary(self) -> bool:
        return self.code < _PERMANENT


@dataclass(frozen=True, slots=True)
class MailResult:
    """A mail that the server has taken, for at least one recipient."""

    message_id: str
    accepted: tuple[str, ...]
    refused: tuple[Refusal, ...]
    reply: str
    """The server's reply, often with the name of the mail in its queue."""

    def to_document(self) -> dict[str, Any]:
        """The result as plain data."""
        refused = [{"address": one.address, "code": one.code, "reply": one.reply} for one in self.refused]
        document = {"message_id": self.message_id, "accepted": list(self.accepted), "reply": self.reply}
        return {**document, **({"refused": refused} if refused else {})}


def why_unsendable(settings: SmtpSettings | None, request: EmailRequest) -> str | None:
    """The setting that this mail still needs, in words; None if none is missing."""
    if settings is None:
        return f"There is no SMTP server to send mail by; set {URL_VARIABLE}."
    if request.sender is None and settings.sender is None:
        return f"The mail has no sender; set {FROM_VARIABLE}, or give it a from."
    return None


def why_refused(settings: SmtpSettings, request: EmailRequest) -> str | None:
    """The reason why a mail must not have its sender; None if it may."""
    if request.sender is None or settings.allows(read_address(request.sender, "from").addr_spec):
        return None
    return (
        f"Mail must not be from {request.sender!r:.100}: leave from out, or let the operator of the worker allow the "
        f"address with {SENDERS_VARIABLE}."
    )


async def send_mail(settings: SmtpSettings, request: EmailRequest, facts: MailFacts) -> MailResult:
    """Send one mail, in one attempt. Raises `MailRejected` or `MailFailed`."""
    missing = why_unsendable(settings, request)
    if missing is not None:
        raise MailFailed(missing)
    message = request.to_message(facts, settings.sender)
    sender = read_address(request.sender or settings.sender or "", "from").addr_spec
    refused_sender = why_refused(settings, request)
    if refused_sender is not None:
        raise MailRejected(refused_sender)
    recipients = request.recipients
    refused, reply = await _attempt(settings, sender, recipients, message.as_bytes())
    return MailResult(
        message_id=str(message["Message-ID"]),
        accepted=tuple(one for one in recipients if one not in refused),
        refused=tuple(Refusal(one, code, _shown(text, settings)) for one, (code, text) in refused.items()),
        reply=_shown(reply, settings),
    )


Refused = Mapping[str, tuple[int, str]]


async def _attempt(
    settings: SmtpSettings, sender: str, recipients: tuple[str, ...], message: bytes
) -> tuple[Refused, str]:
    """Connect, log in and send. The driver's errors are replaced by Mainspring's, without their traceback: frames of
    the login hold the password.
    """
    failure: MainspringError
    client = _client(settings)
    try:
        async with asyncio.timeout(settings.timeout):
            await _open(client, settings)
            refused, reply = await client.sendmail(sender, recipients, message)
    except TimeoutError:
        failure = MailFailed(f"{settings.address} did not take the mail within {settings.timeout:g} s.")
    except (OSError, ValueError, _driver().SMTPException) as error:
        failure = _told(error, settings)
    else:
        await _say_goodbye(client)
        return refused, reply
    finally:
        client.close()
    raise failure


def _client(settings: SmtpSettings) -> SMTP:
    client: SMTP = _driver().SMTP(
        hostname=settings.host,
        port=settings.port,
        local_hostname=settings.hello,
        timeout=settings.timeout,
        use_tls=settings.tls == IMPLICIT,
        start_tls=False,
        tls_context=None if settings.tls == OFF else settings.tls_context(),
    )
    return client


async def _open(client: SMTP, settings: SmtpSettings) -> None:
    """Connect, encrypt and log in. With tls auto, the password is not sent if the server offers no TLS."""
    await client.connect()
    await client.ehlo()
    offered = client.supports_extension("starttls")
    if settings.tls == REQUIRED and not offered:
        raise ConnectionError(f"it offers no TLS, which is required; starttls=auto in {URL_VARIABLE} does without")
    if settings.tls in (REQUIRED, AUTO) and offered:
        await client.starttls()
    elif settings.tls == AUTO and settings.password is not None:
        raise ConnectionError("it offers no TLS, without which the password is not sent (starttls=off allows it)")
    if settings.username is not None and settings.password is not None:
        await client.login(settings.username, settings.password)


async def _say_goodbye(client: SMTP) -> None:
    try:
        async with asyncio.timeout(_GOODBYE):
            await client.quit()
    except (OSError, _driver().SMTPException):
        pass


def _told(error: Exception, settings: SmtpSettings) -> MainspringError:
    """The driver's error as Mainspring's. Only a reply to the mail itself is final, not one to an earlier command."""
    smtp = _driver()
    if isinstance(error, smtp.SMTPRecipientsRefused):
        said = {one.recipient: (one.code, one.message) for one in error.recipients}
        words = "; ".join(f"{one}: {code} {text}" for one, (code, text) in said.items())
        kind = _kind(min(code for code, _ in said.values()))
        return kind(_shown(f"{settings.address} refused all recipients. {words}", settings))
    if isinstance(error, smtp.SMTPSenderRefused | smtp.SMTPDataError):
        text = f"{settings.address} refused the mail: {error.code} {error.message}"
        return _kind(error.code)(_shown(text, settings))
    if isinstance(error, smtp.SMTPAuthenticationError):
        text = f"{settings.address} refused the user or the password in {URL_VARIABLE}: {error.code} {error.message}"
        return MailFailed(_shown(text, settings))
    return MailFailed(_shown(f"{settings.address} could not be used: {_words(error)}", settings))


def _kind(code: int) -> type[MailRejected] | type[MailFailed]:
    return MailRejected if code >= _PERMANENT else MailFailed


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); name the one to trust with ca=FILE"
    if isinstance(error, _driver().SMTPResponseException):
        return f"{error.code} {error.message}"
    return str(error) or type(error).__name__


def _shown(text: str, settings: SmtpSettings) -> str:
    """A server's reply as it may be stored: without the password, in one line, and not too long. The password is masked
    before the cut, which may split it.
    """
    for secret in _spellings(settings):
        text = text.replace(secret, "…")
    line = re.sub(r"\s+", " ", text)
    line = "".join(one if one.isprintable() else "�" for one in line)
    return line if len(line) <= _LONGEST_REPLY else f"{line[: _LONGEST_REPLY - 1]}…"


def _spellings(settings: SmtpSettings) -> tuple[str, ...]:
    """The forms in which the password is sent over the wire."""
    if not settings.password:
        return ()
    plain, user = settings.password, settings.username or ""
    whole = b64encode(f"\0{user}\0{plain}".encode()).decode()
    return whole, b64encode(plain.encode()).decode(), plain


def _driver() -> Any:
    try:
        import aiosmtplib
    except ModuleNotFoundError:
        raise ConfigurationError("Mail needs the extra email: pip install 'mainspring[email]'.") from None
    return aiosmtplib
