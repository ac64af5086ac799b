"""Hostile texts in every field of a mail: it is refused, or its bytes say what was asked for and nothing else.

MAINSPRING_FUZZ=full tries 100,000 examples of each.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.fuzzing import LONG, examples, mostly
from mainspring.jobtypes.mail import EmailRequest, MailFacts

pytestmark = LONG
FACTS = MailFacts("job-1", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
OWN = ["auto-submitted", "content-type", "date", "from", "message-id", "mime-version", "subject", "to"]
PIECES = st.sampled_from(
    ["\r\n", "\n", "\r", "\x00", "\x0b", "\x85", "\u2028", "\r\nBcc: eve@evil.example", "\r\n\r\n<html>", "\r\n.\r\n",
     "=?utf-8?q?x=0D=0ABcc:_eve=40evil.example?=", "=?", "?=", ",", ";", ":", "<", ">", "@", '"', "\\", "(", ")", " ",
     "\t", "eve@evil.example", "a", "é", "嘊嘍", "\udc0d"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=6).map("".join)
SOUND = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=120)
MIXED = mostly(SOUND, TEXTS)
NAMES = mostly(st.just("X-Note"), TEXTS)
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]|\r(?!\n)|(?<!\r)\n")


def sent(**fields: Any) -> Message | None:
    """The mail as its receiver reads it; None if it was refused."""
    try:
        request = EmailRequest.model_validate({"to": "ada@example.com", "from": "bob@example.org", **fields})
    except ValidationError:
        event("refused")
        return None
    event("sent")
    content = request.to_message(FACTS).as_bytes()
    assert not CONTROLS.search(content)
    return message_from_bytes(content)


def headers_of(message: Message) -> list[str]:
    return sorted(name.lower() for name in message if name.lower() != "content-transfer-encoding")


def decoded(message: Message, name: str) -> str:
    return str(make_header(decode_header(message[name].replace("\r\n", ""))))


def people(message: Message, name: str) -> list[tuple[str, str]]:
    return [(str(make_header(decode_header(one))), address) for one, address in getaddresses([message[name]])]


@examples(300)
@given(MIXED, NAMES, MIXED)
def test_subject_and_headers_are_refused_or_read_as_they_were_written(subject: str, name: str, text: str) -> None:
    message = sent(subject=subject, headers={name: text}, text="hello")
    if message is None:
        return
    own = [one for one in OWN if one != name.lower()]
    assert headers_of(message) == sorted([*own, name.lower()])
    assert (decoded(message, "subject"), decoded(message, name)) == (subject, text)
    assert message.get_payload() == "hello\r\n"


@examples(300)
@given(st.sampled_from(["to", "cc", "from", "replyTo"]), MIXED, TEXTS)
def test_people_are_refused_or_are_those_who_were_written(field: str, name: str, spec: str) -> None:
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    for written, expected in ((f"{quoted} <eve@example.com>", "eve@example.com"), (f"Eve <{spec}>", spec)):
        message = sent(**{field: [written] if field != "from" else written}, text="hello")
        if message is None:
            continue
        header = {"replyTo": "reply-to"}.get(field, field)
        assert headers_of(message) == sorted({*OWN, header})
        shown = " ".join(name.split()) if expected == "eve@example.com" else "Eve"
        assert [(" ".join(one.split()), address) for one, address in people(message, header)] == [(shown, expected)]


@examples(300)
@given(TEXTS, st.none() | TEXTS)
def test_what_stands_in_a_body_stays_in_it(text: str, html: str | None) -> None:
    message = sent(subject="hello", text=text, html=html)
    if message is None:
        return
    assert headers_of(message) == OWN
    parts = [part for part in message.walk() if not part.is_multipart()]
    expected = [text] if html is None else [text, html] if text else [html]
    assert [plain(part) for part in parts] == [plain_text(one) for one in expected]


def plain(part: Message) -> str:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return plain_text(payload.decode(part.get_content_charset() or "ascii"))


def plain_text(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
