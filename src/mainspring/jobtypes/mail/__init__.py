"""Email jobs: the message, the server that sends it, and one attempt at sending. Sending needs the extra `email`."""

from __future__ import annotations

from mainspring.jobtypes.mail.message import EmailRequest, MailFacts
from mainspring.jobtypes.mail.send import (
    MailFailed,
    MailRejected,
    MailResult,
    Refusal,
    send_mail,
    why_refused,
    why_unsendable,
)
from mainspring.jobtypes.mail.settings import SmtpSettings

__all__ = [
    "EmailRequest",
    "MailFacts",
    "MailFailed",
    "MailRejected",
    "MailResult",
    "Refusal",
    "SmtpSettings",
    "send_mail",
    "why_refused",
    "why_unsendable",
]
