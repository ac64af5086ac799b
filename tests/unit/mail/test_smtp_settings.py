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
        (f"smtp://{HOST}", (587, "auto")),
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


def test_a_url_says_everything_else() -> None:
    settings = SmtpSettings.parse(f"smtp://b%40x:p%2Fw@{HOST}?verify=off&timeout=5&hello=me.example.org", "A <a@x.org>")
    assert (settings.username, settings.password, settings.sender) == ("b@x", "p/w", "A <a@x.org>")
    assert (settings.verify, settings.timeout, settings.hello) == (False, 5.0, "me.example.org")
    assert settings.address == f"{HOST}:587"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is no URL of an SMTP server"),
        (HOST, "is no URL of an SMTP server"),
        (f"https://{HOST}", "is no URL of an SMTP server"),
        ("smtp://", "is no URL of an SMTP server"),
        (f"smtp://{HOST}/inbox", "is no URL of an SMTP server"),
        (f"smtp://{HOST}:70000", "is no URL of an SMTP server"),
        (f"smtp://bob:hunter2/x@{HOST}", "is no URL of an SMTP server"),
        (f"smtp://bob:hunter2#x@{HOST}", "is no URL of an SMTP server"),
        (f"smtp://bob:hunter2 x@{HOST}", "is no URL of an SMTP server"),
        (f"smtp://bob:hunter2?x=1@{HOST}", "no URL|an option that is not known"),
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
