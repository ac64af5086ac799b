"""SMTP servers as URLs: what they mean, what is refused, and that a password is shown nowhere."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ConfigurationError
from mainspring.jobtypes.mail import SmtpSettings

HOST = "mail.example.org"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"smtps://{HOST}", (465, "implicit")),
        (f"smtps://{HOST}:2465/", (2465, "implicit")),
        (f"smtp://{HOST}", (587, "required")),
        (f"smtp://{HOST}?starttls=auto", (587, "auto")),
        (f"smtp://bob:pass@{HOST}:25", (25, "required")),
        (f"smtp://bob:pass@{HOST}?starttls=auto", (587, "auto")),
        (f"smtp://bob:pass@{HOST}?starttls=off", (587, "off")),
        (f"smtp://{HOST}?starttls=required", (587, "required")),
    ],
)
def test_a_url_says_the_port_and_how_it_is_encrypted(url: str, expected: tuple[int, str]) -> None:
    settings = SmtpSettings.parse(url)
    assert (settings.host, settings.verify) == (HOST, True)
    assert (settings.port, settings.tls) == expected


@pytest.mark.parametrize(("host", "tls"), [("localhost", "auto"), ("127.0.0.1", "auto"), ("[::1]", "auto")])
def test_tls_is_optional_on_this_machine_without_a_password_only(host: str, tls: str) -> None:
    assert SmtpSettings.parse(f"smtp://{host}:25").tls == tls
    assert SmtpSettings.parse(f"smtp://bob:pass@{host}:25").tls == "required"
    assert SmtpSettings.parse("smtp://10.0.0.1:25").tls == "required"
    assert SmtpSettings.parse("smtp://localhost.example.org:25").tls == "required"


def test_mail_may_be_from_the_configured_address_and_from_allowed_ones() -> None:
    plain = SmtpSettings.parse(f"smtps://{HOST}", "Shop <Shop@example.org>")
    assert plain.allows("shop@EXAMPLE.org") and not plain.allows("ceo@example.org")
    more = SmtpSettings.parse(f"smtps://{HOST}", "shop@example.org", "a@b.test, @c.test")
    assert all(map(more.allows, ("shop@example.org", "A@b.test", "ceo@C.test")))
    assert not any(map(more.allows, ("x@b.test", "ceo@sub.c.test", "ceo@xc.test", "c.test@x")))
    assert SmtpSettings.parse(f"smtps://{HOST}", None, "*").allows("anybody@bank.test")
    assert not SmtpSettings.parse(f"smtps://{HOST}").allows("anybody@bank.test")


@pytest.mark.parametrize("senders", ["bank", "@", "a@b.test;c@d.test", "*,a@b.test", "a@b.test\r\nx"])
def test_senders_that_cannot_be_read_are_refused(senders: str) -> None:
    with pytest.raises(ConfigurationError, match="MAINSPRING_SMTP_SENDERS"):
        SmtpSettings.parse(f"smtps://{HOST}", None, senders)


def test_a_url_says_everything_else() -> None:
    settings = SmtpSettings.parse(f"smtp://b%40x:p%2Fw@{HOST}?verify=off&timeout=5&hello=me.example.org", "A <a@x.org>")
    assert (settings.username, settings.password, settings.sender) == ("b@x", "p/w", "A <a@x.org>")
    assert (settings.verify, settings.timeout, settings.hello) == (False, 5.0, "me.example.org")
    assert settings.address == f"{HOST}:587"


@pytest.mark.parametrize(
    ("user", "sender"), [("ann%40example.com", "ann@example.com"), ("ann", None), ("a%40b%40c", None), ("%40", None)]
)
def test_mail_is_from_the_login_where_that_is_an_address_and_nothing_else_is_set(user: str, sender: str | None) -> None:
    assert SmtpSettings.parse(f"smtps://{user}:pass@{HOST}").sender == sender
    assert SmtpSettings.parse(f"smtps://{user}:pass@{HOST}", "b@x.org").sender == "b@x.org"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is not the URL of an SMTP server"),
        (HOST, "is not the URL of an SMTP server"),
        (f"https://{HOST}", "is not the URL of an SMTP server"),
        ("smtp://", "is not the URL of an SMTP server"),
        (f"smtp://{HOST}/inbox", "is not the URL of an SMTP server"),
        (f"smtp://{HOST}:70000", "is not the URL of an SMTP server"),
        (f"smtp://bob:hunter2/x@{HOST}", "is not the URL of an SMTP server"),
        (f"smtp://bob:hunter2#x@{HOST}", "is not the URL of an SMTP server"),
        (f"smtp://bob:hunter2 x@{HOST}", "is not the URL of an SMTP server"),
        (f"smtp://bob:hunter2?x=1@{HOST}", "not the URL|an option that is not known"),
        (f"smtp://bob@{HOST}", "needs both a user and a password"),
        (f"smtp://:hunter2@{HOST}", "needs both a user and a password"),
        (f"smtp://{HOST}?startls=off", "an option that is not known; known are starttls, verify, ca, timeout, hello"),
        (f"smtp://{HOST}?verify=off&verify=on", "an option twice"),
        (f"smtp://{HOST}?starttls=maybe", "starttls must be required, auto or off, not 'maybe'"),
        (f"smtps://{HOST}?starttls=off", "leave starttls out"),
        (f"smtp://{HOST}?verify=no", "verify must be on or off, not 'no'"),
        (f"smtp://{HOST}?ca=missing.pem", "'missing.pem' is not there"),
        (f"smtp://{HOST}?timeout=0", "timeout must be from 1 to 3,600 seconds"),
        (f"smtp://{HOST}?timeout=nan", "timeout must be from 1 to 3,600 seconds"),
        (f"smtp://{HOST}?timeout=soon", "timeout must be from 1 to 3,600 seconds"),
        (f"smtp://{HOST}?hello=a%0D%0Ab", "hello must be a host's name"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        SmtpSettings.parse(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None or "hunter2" not in str(caught.value.__context__)


def test_a_file_that_has_no_certificates_is_refused(tmp_path: Any) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        SmtpSettings.parse(f"smtp://{HOST}?ca={tmp_path / 'ca.pem'}")


def test_a_sender_that_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="MAINSPRING_SMTP_FROM has 'nobody'"):
        SmtpSettings.parse(f"smtp://{HOST}", "nobody")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30))
def test_a_password_is_read_whole_and_never_shown(tail: str) -> None:
    password = f"canary7{tail}"
    settings = SmtpSettings.parse(f"smtp://bob:{quote(password, safe='')}@{HOST}")
    assert settings.password == password
    assert "canary7" not in f"{settings!r} {settings}"


@given(st.text(max_size=40))
def test_a_url_with_an_unescaped_password_is_refused_or_read_but_never_shown(tail: str) -> None:
    try:
        settings = SmtpSettings.parse(f"smtp://bob:canary7{tail}@{HOST}")
    except ConfigurationError as error:
        shown = f"{error!s} {error.__context__!s}"
    else:
        shown = repr(settings)
    assert "canary7" not in shown
