"""Mail over a real SMTP connection: what arrives, how it is protected, and what each kind of refusal means."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email import policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import getaddresses
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.fuzzing import LONG, examples
from harness.mail import Mail, Sink, make_certificate, smtp_sink
from harness.servers import free_port
from mainspring import ConfigurationError
from mainspring.jobtypes.mail import EmailRequest, MailFacts, MailFailed, MailRejected, SmtpSettings, send_mail
from mainspring.jobtypes.mail.addresses import read_address

pytestmark = LONG
AT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
FACTS = MailFacts("job-1", AT)
SECRET = "pa:ss/w@rd?&#"
HIDDEN = quote(SECRET, safe="")


def request(**fields: Any) -> EmailRequest:
    return EmailRequest.model_validate({"to": "ada@example.com", "from": "bob@example.org", **fields})


def url(sink: Sink, query: str = "", user: str = "", scheme: str = "smtp") -> SmtpSettings:
    text = f"{scheme}://{user}127.0.0.1:{sink.port}/?hello=client.test&timeout=10{query}"
    return SmtpSettings.parse(text, senders="*")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with smtp_sink() as sink:
        yield sink


def parse(mail: Mail) -> EmailMessage:
    return BytesParser(EmailMessage, policy=policy.default).parsebytes(mail.content)


def content(part: Any) -> str:
    return str(part.get_content()).replace("\r\n", "\n")


def shown(mail: Mail, name: str) -> list[tuple[str, str]]:
    """Names and addresses in a header, as a reader of mail shows them."""
    pairs = getaddresses(mail.message.get_all(name, []))
    return [(str(make_header(decode_header(one))), address) for one, address in pairs]


async def test_a_mail_arrives_as_it_was_asked_for(sink: Sink) -> None:
    result = await send_mail(
        url(sink),
        request(
            to=["Ada <ada@example.com>", "grace@example.com"],
            cc="Łukasz <lukasz@example.com>",
            bcc="eve@example.com",
            reply_to="help@example.org",
            subject="Grüße",
            text="Hello\n.\nworld — €",
            headers={"X-Order": "17"},
        ),
        FACTS,
    )
    [mail] = sink.received
    parsed = parse(mail)
    assert mail.sender == "bob@example.org"
    assert mail.recipients == ["ada@example.com", "grace@example.com", "lukasz@example.com", "eve@example.com"]
    assert shown(mail, "to") == [("Ada", "ada@example.com"), ("", "grace@example.com")]
    assert shown(mail, "cc") == [("Łukasz", "lukasz@example.com")]
    assert (parsed["subject"], parsed["reply-to"], parsed["x-order"]) == ("Grüße", "help@example.org", "17")
    assert parsed["date"].datetime == AT
    assert content(parsed) == "Hello\n.\nworld — €\n"
    assert b"eve@example.com" not in mail.content
    assert result.to_document() == {
        "message_id": parsed["message-id"],
        "accepted": mail.recipients,
        "reply": "queued as 4711",
    }


async def test_the_message_id_is_the_same_for_all_attempts_and_differs_between_jobs(sink: Sink) -> None:
    later = datetime(2030, 1, 2, 4, tzinfo=UTC)
    for facts in (FACTS, MailFacts("job-1", later), MailFacts("job-2", AT), MailFacts("job-1", AT, "other")):
        await send_mail(url(sink), request(), facts)
    first, again, other, elsewhere = [mail.message["message-id"] for mail in sink.received]
    assert first == again
    assert len({first, other, elsewhere}) == 3


async def test_text_and_html_are_alternatives(sink: Sink) -> None:
    await send_mail(url(sink), request(text="plain", html="<p>rich</p>"), FACTS)
    await send_mail(url(sink), request(html="<p>rich</p>"), FACTS)
    both, rich = [parse(mail) for mail in sink.received]
    assert both.get_content_type() == "multipart/alternative"
    assert [(part.get_content_type(), content(part)) for part in both.iter_parts()] == [
        ("text/plain", "plain\n"),
        ("text/html", "<p>rich</p>\n"),
    ]
    assert (rich.get_content_type(), content(rich)) == ("text/html", "<p>rich</p>\n")


async def test_the_default_sender_is_used_where_a_mail_names_none(sink: Sink) -> None:
    settings = SmtpSettings.parse(f"smtp://127.0.0.1:{sink.port}", "Shop <shop@example.org>")
    await send_mail(settings, EmailRequest.model_validate({"to": "ada@example.com"}), FACTS)
    assert sink.received[0].sender == "shop@example.org"
    assert shown(sink.received[0], "from") == [("Shop", "shop@example.org")]


async def test_a_mail_from_another_address_than_the_configured_one_is_not_sent(sink: Sink) -> None:
    settings = SmtpSettings.parse(f"smtp://127.0.0.1:{sink.port}", "shop@example.org", "@allowed.test")
    with pytest.raises(MailRejected, match=r"must not be from 'ceo@bank.test'.*MAINSPRING_SMTP_SENDERS"):
        await send_mail(settings, request(**{"from": "ceo@bank.test"}), FACTS)
    assert sink.wire == b""
    await send_mail(settings, request(**{"from": "Any Name <shop@example.org>"}), FACTS)
    await send_mail(settings, request(**{"from": "x@allowed.test"}), FACTS)
    assert [mail.sender for mail in sink.received] == ["shop@example.org", "x@allowed.test"]


async def test_where_tls_is_required_and_not_offered_nothing_is_sent(sink: Sink) -> None:
    with pytest.raises(MailFailed, match="offers no TLS, which is required; starttls=auto"):
        await send_mail(url(sink, "&starttls=required"), request(), FACTS)
    assert sink.received == [] and "MAIL" not in sink.wire.decode("latin-1")


async def test_without_any_sender_a_mail_is_not_sent_and_says_what_to_set(sink: Sink) -> None:
    with pytest.raises(MailFailed, match="set MAINSPRING_SMTP_FROM"):
        await send_mail(url(sink), EmailRequest.model_validate({"to": "ada@example.com"}), FACTS)
    assert sink.wire == b""


# -- what a server refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"), [(550, MailRejected), (552, MailRejected), (451, MailFailed), (421, MailFailed)], ids=str
)
@pytest.mark.parametrize("place", ["sender", "recipient", "mail"])
async def test_a_permanent_refusal_is_final_and_a_temporary_one_is_not(
    sink: Sink, place: str, code: int, kind: type[Exception]
) -> None:
    reply = f"{code} not this one"
    if place == "sender":
        sink.sender_reply = reply
    elif place == "recipient":
        sink.replies["ada@example.com"] = reply
    else:
        sink.mail_reply = reply
    with pytest.raises(kind, match=f"{code} not this one"):
        await send_mail(url(sink), request(), FACTS)
    assert sink.received == []


async def test_some_refused_recipients_are_told_in_the_result(sink: Sink) -> None:
    sink.replies = {"gone@example.com": "550 unknown", "busy@example.com": "450 later"}
    result = await send_mail(url(sink), request(cc=["gone@example.com", "busy@example.com"]), FACTS)
    assert sink.received[0].recipients == ["ada@example.com"]
    assert result.accepted == ("ada@example.com",)
    assert [(one.address, one.code, one.reply, one.temporary) for one in result.refused] == [
        ("gone@example.com", 550, "unknown", False),
        ("busy@example.com", 450, "later", True),
    ]
    assert result.to_document()["refused"][0] == {"address": "gone@example.com", "code": 550, "reply": "unknown"}


async def test_a_mail_that_one_of_the_refused_might_get_later_is_tried_again(sink: Sink) -> None:
    sink.replies = {"ada@example.com": "550 unknown", "busy@example.com": "450 later"}
    with pytest.raises(MailFailed, match=r"refused all recipients.*550 unknown.*450 later"):
        await send_mail(url(sink), request(cc="busy@example.com"), FACTS)


async def test_a_server_that_is_not_there_can_be_tried_again() -> None:
    with pytest.raises(MailFailed, match=r"could not be used: .*onnect"):
        await send_mail(SmtpSettings.parse(f"smtp://127.0.0.1:{free_port()}", senders="*"), request(), FACTS)


async def test_a_server_that_says_nothing_can_be_tried_again() -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        gone.set()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(MailFailed, match=f"127.0.0.1:{port}"):
            await send_mail(SmtpSettings.parse(f"smtp://127.0.0.1:{port}?timeout=1", senders="*"), request(), FACTS)
        await gone.wait()


async def test_a_mail_that_was_taken_is_sent_even_when_the_goodbye_fails(sink: Sink) -> None:
    async def handle_QUIT(server: Any, session: Any, envelope: Any) -> str:
        server.transport.abort()
        return "221 Bye"

    sink.handle_QUIT = handle_QUIT  # type: ignore[attr-defined]
    result = await send_mail(url(sink), request(), FACTS)
    assert (len(sink.received), result.accepted) == (1, ("ada@example.com",))


async def test_what_a_server_says_is_kept_in_one_line_and_not_at_any_length(sink: Sink) -> None:
    sink.mail_reply = "550 \x1b[31m" + "no " * 150
    with pytest.raises(MailRejected) as caught:
        await send_mail(url(sink), request(), FACTS)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 500


# -- TLS and logins ------------------------------------------------------------------------------------------------


async def test_mail_goes_over_tls_from_the_first_byte_with_a_login(certificate: tuple[Path, ssl.SSLContext]) -> None:
    trusted, context = certificate
    async with smtp_sink(context=context, implicit=True, password=SECRET) as sink:
        settings = url(sink, f"&ca={trusted}", f"bob%40example.org:{HIDDEN}@", "smtps")
        await send_mail(settings, request(), FACTS)
    assert (sink.received[0].encrypted, sink.received[0].user) == (True, "bob@example.org")


@pytest.mark.parametrize("query", ["", "&starttls=required", "&starttls=auto"])
async def test_mail_goes_over_tls_after_starttls_with_a_login(
    certificate: tuple[Path, ssl.SSLContext], query: str
) -> None:
    trusted, context = certificate
    async with smtp_sink(context=context, password=SECRET) as sink:
        await send_mail(url(sink, f"&ca={trusted}{query}", f"bob:{HIDDEN}@"), request(), FACTS)
    assert (sink.received[0].encrypted, sink.received[0].user) == (True, "bob")


async def test_without_a_password_tls_is_used_where_it_is_offered(certificate: tuple[Path, ssl.SSLContext]) -> None:
    trusted, context = certificate
    async with smtp_sink(context=context) as sink:
        await send_mail(url(sink, f"&ca={trusted}"), request(), FACTS)
        await send_mail(url(sink, "&starttls=off"), request(), FACTS)
    assert [mail.encrypted for mail in sink.received] == [True, False]


@pytest.mark.parametrize("implicit", [True, False])
async def test_a_certificate_that_is_not_trusted_is_refused_unless_told_otherwise(
    certificate: tuple[Path, ssl.SSLContext], implicit: bool
) -> None:
    scheme = "smtps" if implicit else "smtp"
    async with smtp_sink(context=certificate[1], implicit=implicit) as sink:
        with pytest.raises(MailFailed, match="certificate"):
            await send_mail(url(sink, scheme=scheme), request(), FACTS)
        assert sink.received == []
        await send_mail(url(sink, "&verify=off", scheme=scheme), request(), FACTS)
    assert sink.received[0].encrypted


@pytest.mark.parametrize("query", ["", "&starttls=required", "&starttls=auto"])
async def test_a_password_is_not_sent_without_tls(query: str) -> None:
    async with smtp_sink(password=SECRET, plain_login=True) as sink:
        with pytest.raises(MailFailed, match=r"(?i)tls"):
            await send_mail(url(sink, query, f"bob:{HIDDEN}@"), request(), FACTS)
        assert (sink.logins, b"AUTH" in sink.wire) == ([], False)
        await send_mail(url(sink, "&starttls=off", f"bob:{HIDDEN}@"), request(), FACTS)
    assert sink.received[0].user == "bob"


async def test_a_refused_login_can_be_tried_again_and_does_not_show_the_password() -> None:
    async with smtp_sink(password="another", plain_login=True) as sink:
        sink.login_reply = f"535 no {SECRET} here"
        settings = url(sink, "&starttls=off", f"bob:{HIDDEN}@")
        with pytest.raises(MailFailed, match="refused the user or the password in MAINSPRING_SMTP_URL: 535") as caught:
            await send_mail(settings, request(), FACTS)
    assert sink.logins[0] == ("bob", SECRET)
    error = caught.value
    assert SECRET not in f"{error!s} {error!r} {settings!r} {settings!s}"
    assert (error.__cause__, error.__context__) == (None, None)


async def test_a_missing_library_is_named(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "aiosmtplib", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'mainspring\[email\]'"):
        await send_mail(url(sink), request(), FACTS)


# -- whatever people write, the wire says that and nothing else ----------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=120)
NAMES = TEXTS.map(lambda text: " ".join(text.split()))
HEADERS = [
    *("auto-submitted", "content-transfer-encoding", "content-type", "date", "from", "message-id", "mime-version"),
    *("subject", "to", "x-note"),
]
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n")
BODIES = st.text(st.characters(codec="utf-8"), max_size=300)


@examples(60, 5_000)
@given(st.lists(NAMES, min_size=1, max_size=4), TEXTS, TEXTS, BODIES)
@pytest.mark.slow
async def test_the_wire_has_what_was_asked_for_and_nothing_else(
    names: list[str], subject: str, header: str, body: str
) -> None:
    addresses = [
        f"{quoted(name)} <u{number}@example.com>" if name else f"u{number}@example.com"
        for number, name in enumerate(names)
    ]
    asked = request(to=addresses, subject=subject, headers={"X-Note": header}, text=body)
    async with smtp_sink() as sink:
        await send_mail(url(sink), asked, FACTS)
    plain = [f"u{number}@example.com" for number in range(len(names))]
    assert [line.partition(" size=")[0] for line in sink.commands] == [
        "EHLO client.test",
        "MAIL FROM:<bob@example.org>",
        *(f"RCPT TO:<{one}>" for one in plain),
        "DATA",
    ]
    [mail] = sink.received
    assert all(len(line) <= 998 and line.isascii() for line in mail.content.split(b"\r\n"))
    assert not CONTROLS.search(mail.content)
    assert sorted(name.lower() for name in mail.message) == HEADERS
    assert shown(mail, "to") == list(zip(names, plain, strict=True))
    assert (decoded(mail, "subject"), decoded(mail, "x-note")) == (subject, header)
    sent = content(parse(mail))
    assert sent.rstrip("\n") == body.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def decoded(mail: Mail, name: str) -> str:
    return str(make_header(decode_header(mail.message[name].replace("\r\n", ""))))


@examples(300)
@given(NAMES)
@pytest.mark.slow
def test_a_name_is_read_as_it_was_written(name: str) -> None:
    address = read_address(f"{quoted(name)} <ada@example.com>", "to")
    assert (address.display_name, address.addr_spec) == (name, "ada@example.com")
    assert read_address(str(address), "to") == address
