"""What a URI says about TLS, and what is said where the server and the URI do not agree."""

from __future__ import annotations

import pytest

from mainspring.store.tls import asks_for_tls, cure_of, unchecked_by

PLAIN = "mongodb://db.example.com/app"
TLS = f"{PLAIN}?tls=true"


@pytest.mark.parametrize(
    ("uri", "encrypted"),
    [
        ("mongodb://db.example.com/app", False),
        ("mongodb://db.example.com/app?tls=true", True),
        ("mongodb://db.example.com/app?ssl=true", True),
        ("mongodb+srv://db.example.com/app", True),
        ("mongodb+srv://db.example.com/app?tls=FALSE", False),
        (None, None),
    ],
)
def test_a_uri_says_whether_the_connection_is_encrypted(uri: str | None, encrypted: bool | None) -> None:
    assert asks_for_tls(uri) is encrypted


@pytest.mark.parametrize(
    ("uri", "option"),
    [
        (TLS, None),
        (f"{TLS}&tlsInsecure=true", "tlsInsecure"),
        (f"{TLS}&tlsinsecure=false", None),
        ("mongodb+srv://db.example.com/app?tlsAllowInvalidCertificates=true", "tlsAllowInvalidCertificates"),
        (f"{TLS}&tlsAllowInvalidHostnames=True", "tlsAllowInvalidHostnames"),
        (None, None),
    ],
)
def test_a_uri_says_that_certificates_are_not_checked(uri: str | None, option: str | None) -> None:
    assert unchecked_by(uri) == option


@pytest.mark.parametrize(
    ("message", "uri", "cure"),
    [
        ("db.example.com:27017: connection closed", PLAIN, "add tls=true"),
        ("db.example.com:27017: connection closed", TLS, "tlsCertificateKeyFile="),
        ("db.example.com:27017: connection is already closed", TLS, "tlsCertificateKeyFile="),
        ("db.example.com:27017: connection closed", f"{TLS}&tlsCertificateKeyFile=client.pem", None),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate", TLS, "tlsCAFile="),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] … Hostname mismatch, certificate is not valid for 'db'",
            TLS,
            "name the server",
        ),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", TLS, "valid now"),
        ("SSL handshake failed: db.example.com:27017: ", TLS, "take tls=true out"),
        ("db.example.com:27017: [Errno 111] Connection refused", TLS, None),
        ("db.example.com:27017: [Errno 111] Connection refused", PLAIN, None),
    ],
)
def test_a_connection_that_fails_for_want_of_the_right_tls_says_what_to_do(
    message: str, uri: str, cure: str | None
) -> None:
    told = cure_of(message, uri)
    assert told is None if cure is None else cure in str(told)
