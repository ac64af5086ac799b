"""Requests for mail: what is taken, under which names, and what is refused before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes
from email.header import decode_header
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mainspring.jobtypes.mail import EmailRequest, MailFacts, SmtpSettings, why_unsendable
from mainspring.jobtypes.mail.folding import fold_text
from mainspring.jobtypes.mail.message import LONGEST_BODY, LONGEST_SUBJECT

FACTS = MailFacts("job-1", datetime(2030, 1, 1, tzinfo=UTC))


def request(**fields: Any) -> EmailRequest:
    return EmailRequest.model_validate({"to": "ada@example.com", **fields})


@pytest.mark.parametrize(
    ("given_as", "expected"),
    [
        ("ada@example.com", ("ada@example.com",)),
        ("Ada <ada@example.com>", ("Ada <ada@example.com>",)),
        ('"Lovelace, Ada" <ada@example.com>', ('"Lovelace, Ada" <ada@example.com>',)),
        ("ada@example.com, Bob <bob@example.com>", ("ada@example.com", "Bob <bob@example.com>")),
        ('"A, B" <ab@example.com>,c@example.com', ('"A, B" <ab@example.com>', "c@example.com")),
        (["ada@example.com", "ada@example.com"], ("ada@example.com",)),
        (("o'neil+tag@sub.example.com", "root@localhost"), ("o'neil+tag@sub.example.com", "root@localhost")),
    ],
    ids=str,
)
def test_addresses_are_one_or_many(given_as: Any, expected: tuple[str, ...]) -> None:
    assert request(to=given_as).to == expected
    assert EmailRequest.model_validate(request(cc=given_as).to_document()).cc == expected


@pytest.mark.parametrize(
    "wrong",
    [
        *("", " ", "ada", "@example.com", "ada@", "ada@@example.com", "ada@example..com", ".ada@example.com"),
        *("ada@-example.com", "ada @example.com", "<ada@example.com", "a@b>c", "Doe, Jane <jane@example.com>"),
        *("ada@example.com,", ",ada@example.com", "a@example.com,,b@example.com", "a@example.com;b@example.com"),
        *('"ada"@example.com', '"a b"@example.com', "ada@[127.0.0.1]", "friends: ada@example.com;"),
        *("ädä@example.com", "ada@exämple.com", "ada@example.com (work)", "a<b@example.com> <c@example.com>"),
        *("ada@example.com\n", "ada@example.com\r\nBcc: eve@example.com", "A\u2028B <ada@example.com>", "a\0@x.org"),
        *(f"{'a' * 65}@example.com", f"a@{'b' * 64}.com", f"{'x' * 201} <ada@example.com>"),
        *(["ada@example.com, bob@example.com"], [], [5], 5, None, {"address": "ada@example.com"}, [["a@b.c"]]),
    ],
    ids=lambda wrong: repr(wrong)[:40],
)
def test_what_is_no_address_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        request(to=wrong)


@pytest.mark.parametrize("name", ["text", "message", "body"])
def test_the_text_has_three_names(name: str) -> None:
    assert request(**{name: "hello"}).text == "hello"
    assert request(**{name: "hello"}).to_document() == {"to": ["ada@example.com"], "text": "hello"}


def test_two_names_of_the_text_at_once_are_refused() -> None:
    with pytest.raises(ValidationError, match="text and body are names of one thing"):
        request(text="a", body="b")


def test_a_request_comes_back_from_its_document() -> None:
    asked = request(
        **{"from": "Bob <bob@example.org>", "replyTo": "x@example.org", "headers": {"X-A": "1"}, "html": "<p>"},
        bcc=["eve@example.com"],
        subject="Hi",
    )
    document = asked.to_document()
    assert (document["from"], document["reply_to"]) == ("Bob <bob@example.org>", ["x@example.org"])
    assert EmailRequest.model_validate(document) == asked


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"subject": "a\nBcc: eve@example.com"}, "A subject must not contain line ends"),
        ({"subject": "x" * (LONGEST_SUBJECT + 1)}, "at most 998 characters"),
        ({"subject": 5}, "valid string"),
        ({"text": "x" * (LONGEST_BODY + 1)}, "at most 1000000 characters"),
        ({"html": "x" * (LONGEST_BODY + 1)}, "at most 1000000 characters"),
        ({"from": "a@example.com, b@example.com"}, "no address that mail can be sent to"),
        ({"from": ["a@example.com"]}, "valid string"),
        ({"headers": {"Bcc": "eve@example.com"}}, "a header's name begins with X-, or is one of"),
        ({"headers": {"From": "eve@example.com"}}, "a header's name begins with X-"),
        ({"headers": {"Content-Type": "text/html"}}, "a header's name begins with X-"),
        ({"headers": {"X-A:b": "c"}}, "a header's name begins with X-"),
        ({"headers": {"X-A\r\nBcc": "c"}}, "a header's name begins with X-"),
        ({"headers": {"X-A": "b\r\nBcc: eve@example.com"}}, "The header X-A must not contain line ends"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "each header may be given once"),
        ({"headers": {"X-A": "x" * 2001}}, "more than 2,000 characters"),
        ({"headers": {f"X-{n}": "" for n in range(51)}}, "at most 50 items"),
        ({"headers": {"List-Unsubscribe": "<https://exämple.com>"}}, "must be ASCII"),
        ({"cc": [f"u{n}@example.com" for n in range(100)]}, "at most 100 addresses"),
        ({"attachments": []}, "Extra inputs are not permitted"),
        ({"sender": "a@example.com"}, "Extra inputs are not permitted"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_cannot_be_sent_is_refused_when_it_is_asked_for(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        request(**fields)


def test_an_error_does_not_show_what_was_given() -> None:
    with pytest.raises(ValidationError) as caught:
        request(text={"secret": "do not show"})
    assert "do not show" not in str(caught.value)


LINE_ENDS = st.sampled_from(["\r", "\n", "\r\n", "\0", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x7f"])


@given(st.text(max_size=20), LINE_ENDS, st.text(max_size=20), st.sampled_from(["subject", "from", "to", "headers"]))
def test_no_line_end_of_any_kind_gets_into_a_header(before: str, end: str, after: str, field: str) -> None:
    text = f"{before}{end}{after}"
    name = f"{text} <eve@example.com>"
    given_as: dict[str, Any] = {"subject": text, "from": name, "to": [name], "headers": {"X-A": text}}
    with pytest.raises(ValidationError):
        request(**{field: given_as[field]})


@given(st.text(max_size=300), st.integers(0, 80))
def test_a_folded_text_never_begins_a_new_header(text: str, indent: int) -> None:
    lines = fold_text("".join(one for one in text if not "\ud800" <= one <= "\udfff"), indent).split("\r\n")
    assert all(line.startswith(" ") and line.strip() for line in lines[1:])
    assert all(line.isascii() and (line.isprintable() or not line) for line in lines)


def test_an_encoded_word_in_a_subject_is_not_decoded_into_a_line_end() -> None:
    subject = "=?utf-8?q?a=0D=0ABcc:_eve=40example.com?="
    message = request(**{"from": "bob@example.org"}, subject=subject).to_message(FACTS)
    assert message["Subject"] == subject
    raw = message.as_bytes()
    assert b"eve" not in raw
    assert b"\r\nBcc" not in raw
    [(shown, charset)] = decode_header(message_from_bytes(raw)["Subject"])
    assert shown.decode(charset or "ascii") == subject


def test_a_text_with_control_characters_is_sent_in_letters() -> None:
    raw = request(**{"from": "bob@example.org"}, text="a\0b\x0bc\x7f\rd").to_message(FACTS).as_bytes()
    assert not set(raw) & (set(range(32)) - set(b"\t\r\n") | {127})
    assert message_from_bytes(raw).get_payload(decode=True) == b"a\0b\x0bc\x7f\r\nd\r\n"


def test_a_mail_asks_answering_machines_to_be_quiet_unless_it_says_otherwise() -> None:
    quiet = request(**{"from": "bob@example.org"}).to_message(FACTS)
    assert quiet["Auto-Submitted"] == "auto-generated"
    chosen = request(**{"from": "bob@example.org", "headers": {"auto-submitted": "no"}}).to_message(FACTS)
    assert chosen.get_all("Auto-Submitted") == ["no"]


def test_a_message_needs_a_sender() -> None:
    with pytest.raises(ValueError, match="give from, or set a default one"):
        request().to_message(FACTS)
    assert request().to_message(FACTS, "bob@example.org")["From"] == "bob@example.org"


def test_what_is_missing_for_sending_is_told() -> None:
    server = SmtpSettings("mail.example.org", 587)
    assert why_unsendable(None, request()) == "There is no SMTP server to send mail by; set MAINSPRING_SMTP_URL."
    assert "set MAINSPRING_SMTP_FROM" in (why_unsendable(server, request()) or "")
    assert why_unsendable(server, request(**{"from": "bob@example.org"})) is None
