"""The content of an email job: the request as it is stored in the job, and the message that is made of it.

The request is checked when the job is created, so that a mail that cannot be sent is refused at once. The message is
the same for all attempts of a job but for its date: a mailbox that gets it twice, after a lost reply, can recognise
the Message-ID.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from hashlib import sha256
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from mainspring.jobtypes.mail.addresses import check_header_text, read_address, read_addresses
from mainspring.jobtypes.mail.folding import MAIL

MOST_RECIPIENTS = 100
LONGEST_SUBJECT = 998
LONGEST_BODY = 1_000_000
MOST_HEADERS, LONGEST_HEADER = 50, 2_000
# Beside headers that begin with X-, these may be set: the sending server does not interpret them.
OTHER_HEADERS = frozenset(
    (
        *("auto-submitted", "importance", "in-reply-to", "list-id", "list-unsubscribe", "list-unsubscribe-post"),
        *("precedence", "priority", "references"),
    )
)
_TEXT_NAMES = ("text", "message", "body")
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,76}")
_LINE_END = re.compile(r"\r\n?")
# A server may change or refuse these characters if they are sent unencoded.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class MailFacts:
    """The facts of the job that sends a message: its id, and the instant of the attempt.

    `origin`, such as the database's name, distinguishes two deployments whose jobs may have the same ids.
    """

    job_id: str
    at: datetime
    origin: str = ""


def _addresses(value: object) -> tuple[str, ...]:
    return read_addresses(value, "An address")


def _recipients(value: object) -> tuple[str, ...]:
    found = read_addresses(value, "to")
    if not found:
        raise ValueError("to must have at least one address")
    return found


def _one_address(value: str) -> str:
    return str(read_address(value, "An address"))


def _subject(value: str) -> str:
    return check_header_text(value, "A subject")


def _headers(value: Mapping[str, str]) -> Mapping[str, str]:
    if len({name.lower() for name in value}) < len(value):
        raise ValueError("each header may be given once")
    for name, text in value.items():
        _check_header(name, text)
    return value


def _check_header(name: str, text: str) -> None:
    known = name.lower()
    if not _HEADER_NAME.fullmatch(name) or not (known.startswith("x-") or known in OTHER_HEADERS):
        others = ", ".join(sorted(OTHER_HEADERS))
        raise ValueError(f"a header's name begins with X-, or is one of {others}; {name!r:.100} cannot be set")
    if len(text) > LONGEST_HEADER:
        raise ValueError(f"the header {name} has more than {LONGEST_HEADER:,} characters")
    check_header_text(text, f"The header {name}")
    if known in OTHER_HEADERS and not text.isascii():
        raise ValueError(f"the header {name} must be ASCII")


Addresses = Annotated[tuple[str, ...], BeforeValidator(_addresses)]
OneAddress = Annotated[str, AfterValidator(_one_address)]


class EmailRequest(BaseModel):
    """A mail to be sent. Several addresses are a list, or a text with commas; `text` is the alternative to `html`."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    to: Annotated[tuple[str, ...], BeforeValidator(_recipients)]
    cc: Addresses = ()
    bcc: Addresses = ()
    sender: OneAddress | None = Field(None, alias="from")
    reply_to: Addresses = Field((), validation_alias=AliasChoices("reply_to", "replyTo"))
    subject: Annotated[str, Field(max_length=LONGEST_SUBJECT), AfterValidator(_subject)] = ""
    text: Annotated[str, Field(max_length=LONGEST_BODY)] = ""
    html: Annotated[str, Field(max_length=LONGEST_BODY)] | None = None
    headers: Annotated[dict[str, str], Field(max_length=MOST_HEADERS), AfterValidator(_headers)] = {}

    @model_validator(mode="before")
    @classmethod
    def _name_the_text(cls, value: Any) -> Any:
        """Rename `message` or `body` to `text`; only one of the three may be given."""
        if not isinstance(value, Mapping):
            return value
        given = [name for name in _TEXT_NAMES if name in value]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are names of one thing, the text; give one of them")
        return {"text" if name in _TEXT_NAMES else name: one for name, one in value.items()}

    @model_validator(mode="after")
    def _bound(self) -> EmailRequest:
        if len(self.recipients) > MOST_RECIPIENTS:
            raise ValueError(f"a mail goes to at most {MOST_RECIPIENTS} addresses; send several")
        return self

    @property
    def recipients(self) -> tuple[str, ...]:
        """All plain addresses that the mail goes to, each once."""
        texts = (*self.to, *self.cc, *self.bcc)
        return tuple(dict.fromkeys(read_address(text, "An address").addr_spec for text in texts))

    def to_document(self) -> dict[str, Any]:
        """The request as plain data, under the documented names, without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def to_message(self, facts: MailFacts, default_sender: str | None = None) -> EmailMessage:
        """The message of one attempt. The blind copies are in no header."""
        sender = self.sender or default_sender
        if sender is None:
            raise ValueError("A mail needs a sender: give from, or set a default one.")
        author = read_address(sender, "from")
        message = EmailMessage(policy=MAIL)
        message["From"] = author
        for name, texts in (("To", self.to), ("Cc", self.cc), ("Reply-To", self.reply_to)):
            if texts:
                message[name] = [read_address(text, name) for text in texts]
        message["Subject"] = self.subject
        message["Date"] = facts.at
        message["Message-ID"] = message_id(facts, author)
        for name, text in self._all_headers().items():
            message[name] = text
        self._fill(message)
        return message

    def _all_headers(self) -> dict[str, str]:
        """The headers of the request, and Auto-Submitted unless it is given, so that no automatic reply is sent."""
        asked = any(name.lower() == "auto-submitted" for name in self.headers)
        return {**self.headers, **({} if asked else {"Auto-Submitted": "auto-generated"})}

    def _fill(self, message: EmailMessage) -> None:
        if self.html is None:
            _set_content(message, self.text, "plain")
        elif not self.text:
            _set_content(message, self.html, "html")
        else:
            _set_content(message, self.text, "plain")
            other = EmailMessage(policy=MAIL)
            _set_content(other, self.html, "html")
            del other["MIME-Version"]
            message.make_alternative()
            message.attach(other)


def message_id(facts: MailFacts, author: Address) -> str:
    """The Message-ID of a job: the same for all its attempts, and no other job's."""
    digest = sha256(f"{facts.origin}\n{facts.job_id}".encode()).hexdigest()
    return f"<{digest[:40]}@{author.domain}>"


def _set_content(part: EmailMessage, text: str, subtype: str) -> None:
    """Set the text of a part, with one kind of line ends; a text with control characters is always encoded."""
    lines = _LINE_END.sub("\n", text)
    part.set_content(lines, subtype=subtype, cte="base64" if _CONTROLS.search(lines) else None)
