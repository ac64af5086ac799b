"""Email jobs: what is sent, by which server, and one attempt at sending it. Sending needs the extra `email`."""

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
