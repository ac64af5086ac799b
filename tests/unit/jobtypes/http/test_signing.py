"""Signatures after Standard Webhooks: the known vector, rotation, and what a receiver can check by itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.jobtypes.http.signing import InvalidSecret, message_id, new_secret, sign, signature_headers

AT = datetime(2026, 11, 15, 12, 0, 0, 999_000, tzinfo=UTC)


def verifies(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """What a receiver does, written from the standard's text and not from our code."""
    key = base64.b64decode(secret.split("_", 1)[1])
    content = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    given = [one.split(",", 1) for one in headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(signature, expected) for version, signature in given)


def test_the_vector_of_the_reference_libraries_is_reproduced() -> None:
    assert (
        sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            b'{"test": 2432232314}',
        )
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.binary())
def test_a_receiver_verifies_the_bytes_and_no_others(job_id: str, body: bytes) -> None:
    secret = new_secret()
    headers = signature_headers([secret], job_id, AT, body)
    assert headers["webhook-timestamp"] == str(int(AT.timestamp()))
    assert verifies(secret, headers, body)
    assert not verifies(secret, headers, body + b" ")
    assert not verifies(new_secret(), headers, body)
    assert not verifies(secret, {**headers, "webhook-timestamp": "1"}, body)


def test_while_a_secret_is_replaced_both_verify() -> None:
    old, new = new_secret(), new_secret()
    headers = signature_headers([new, old], "a", AT, b"x")
    assert headers["webhook-signature"].count("v1,") == 2
    assert verifies(old, headers, b"x")
    assert verifies(new, headers, b"x")


def test_without_secrets_there_is_an_id_and_no_signature() -> None:
    assert signature_headers([], "a1", AT, b"") == {
        "webhook-id": "msg_a1",
        "webhook-timestamp": str(int(AT.timestamp())),
    }


@given(st.text())
def test_an_id_is_a_plain_token_without_a_dot(job_id: str) -> None:
    message = message_id(job_id)
    assert message == message_id(job_id)
    assert message.isascii()
    assert message.replace("_", "").replace("-", "").isalnum()
    assert len(message) < 80


def test_different_jobs_have_different_ids() -> None:
    assert len({message_id(one) for one in ("a", "a.b", "a.c", "a@2026-01-01T00:00:00Z", "ä")}) == 5


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + "!" * 40, "whsec_" + "A" * 120],
)
def test_a_secret_that_is_weak_or_none_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(InvalidSecret, match="24 to 64 bytes") as caught:
        sign(secret, "a", 1, b"")
    assert secret in ("", "whsec_") or secret not in str(caught.value)
