"""Secrets in what is kept: found in many forms, and before anything is cut."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ConfigurationError
from mainspring.jobtypes.http.response import keep_body, keep_headers
from mainspring.jobtypes.http.secret_references import MASK, Scrubber, fill_secrets, secret_names
from mainspring.jobtypes.http.templates import Room

SECRET = 's3cr"et/+ &<value>'


def test_references_are_found_within_a_value_and_filled_once() -> None:
    assert secret_names("Bearer secret://a-b_1.x secret://c") == ["a-b_1", "c"]
    assert fill_secrets("secret://a secret://b", {"a": "secret://b", "b": "2"}, Room("It", 100)) == "secret://b 2"
    with pytest.raises(ConfigurationError, match="followed by a secret's name"):
        secret_names("secret://")


@pytest.mark.parametrize(
    "said",
    [
        SECRET,
        json.dumps({"a": SECRET}),
        json.dumps(SECRET).replace("/", "\\/"),
        quote(SECRET),
        quote(SECRET, safe=""),
        html.escape(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        *(base64.b64encode(f"{'u' * n}:{SECRET}:x".encode()).decode() for n in range(3)),
        base64.urlsafe_b64encode(f"u:{SECRET}".encode()).decode(),
    ],
)
def test_a_secret_is_found_in_the_forms_a_server_may_hand_back(said: str) -> None:
    cleaned = Scrubber([SECRET]).clean_text(f"before {said} after")
    assert MASK in cleaned
    for form in (SECRET, "s3cr", base64.b64encode(SECRET.encode()).decode()[3:15]):
        assert form not in cleaned


@given(st.integers(0, 60), st.binary(max_size=40), st.binary(max_size=40))
def test_no_part_of_a_secret_is_left_wherever_the_body_is_cut(limit: int, before: bytes, after: bytes) -> None:
    secret = "§canary-secret§"
    scrubber = Scrubber([secret])
    data = (before + secret.encode() + after + secret.encode())[: limit + scrubber.reach + 1]
    assert b"canary" not in scrubber.clean(data, limit)
    text, _ = keep_body(data, {}, limit, scrubber)
    assert "canary" not in (text or "")


def test_secrets_that_overlap_leave_nothing_of_each_other() -> None:
    assert Scrubber(["abcdef", "defghi"]).clean_text("xabcdefghiy") == f"x{MASK}y"


def test_without_secrets_nothing_is_changed() -> None:
    assert Scrubber([""]).clean(b"abc", 2) == b"ab"
    assert Scrubber().clean_text("äöü") == "äöü"


def test_headers_are_kept_without_secrets_and_without_cookies() -> None:
    kept = keep_headers([("X-A", "1"), ("x-a", SECRET), ("Set-Cookie", "session=1"), (SECRET, "x")], Scrubber([SECRET]))
    assert kept == {"x-a": f"1, {MASK}", "set-cookie": MASK, MASK: "x"}
    many = keep_headers([(f"x-{n}", "v" * 5000) for n in range(200)], Scrubber())
    assert len(many) == 64
    assert {len(value) for value in many.values()} == {1024}


@pytest.mark.parametrize(
    ("data", "headers", "limit", "result"),
    [
        (b"", {}, 10, (None, None)),
        ("grün".encode(), {}, 10, ("grün", None)),
        ("grün".encode("latin-1"), {"Content-Type": 'text/plain; charset="ISO-8859-1"'}, 10, ("grün", None)),
        ("grün".encode(), {}, 3, ("gr", "cut after 3 bytes")),
        (b"0123456789", {}, 4, ("0123", "cut after 4 bytes")),
        (b"\xff\xfe", {}, 10, ("//4=", "binary, as base64")),
        (b"a\0b", {}, 10, ("YQBi", "binary, as base64")),
        (b"\xff" * 9, {}, 8, ("////////", "binary, as base64, cut after 6 bytes")),
        (b"abc", {"Content-Type": "text/plain; charset=utf-16"}, 10, ("YWJj", "binary, as base64")),
        (b"abc", {"Content-Type": "text/plain; charset=zip"}, 10, ("YWJj", "binary, as base64")),
        (b"abc", {"Content-Encoding": "br"}, 10, (None, "not kept: encoded as 'br', which is not unpacked")),
        (b"abc", {"Content-Encoding": "gzip"}, 10, (None, "not kept: encoded as 'gzip', which is not unpacked")),
    ],
)
def test_a_body_is_kept_as_text_or_with_a_note(
    data: bytes, headers: dict[str, str], limit: int, result: tuple[str | None, str | None]
) -> None:
    assert keep_body(data, headers, limit, Scrubber()) == result
