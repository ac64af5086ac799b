"""Sessions: signed, bound to a key, with an end; a changed text is none, and a token guards against other sites."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ConfigurationError
from mainspring.model.access.sessions import (
    Session,
    csrf_matches,
    csrf_token,
    new_session_secret,
    open_session,
    read_session,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECRET, OTHER = b"a" * 32, b"b" * 32
HOUR = timedelta(hours=1)


def opened(key: str = "abc123") -> str:
    return open_session(SECRET, key, NOW, HOUR)


def test_a_session_stands_for_its_key_until_its_end() -> None:
    text = opened()
    session = read_session([SECRET], text, NOW)
    assert session is not None
    assert session == Session(session.id, "abc123", NOW, NOW + HOUR)
    assert read_session([SECRET], text, NOW + HOUR - timedelta(milliseconds=1)) is not None
    assert read_session([SECRET], text, NOW + HOUR) is None


def test_a_session_of_another_servers_secret_is_none() -> None:
    assert read_session([OTHER], opened(), NOW) is None
    assert read_session([], opened(), NOW) is None


def test_while_secrets_are_rotated_both_count() -> None:
    assert read_session([OTHER, SECRET], opened(), NOW) is not None
    assert csrf_matches([OTHER, SECRET], opened(), csrf_token(SECRET, opened())) is False
    text = opened()
    assert csrf_matches([OTHER, SECRET], text, csrf_token(SECRET, text))


def test_two_sessions_of_one_key_differ() -> None:
    texts = [opened(), opened()]
    found = [read_session([SECRET], text, NOW) for text in texts]
    assert len(set(texts)) == len({one and one.id for one in found}) == 2
    assert not [one for one in found if one is None or one.id in str(texts)], "an id opens nothing"


@given(st.data())
def test_a_text_that_differs_anywhere_is_no_session(data: st.DataObject) -> None:
    text = opened()
    place = data.draw(st.integers(0, len(text)))
    character = data.draw(st.sampled_from("0123456789abcdefABC.\n ") | st.characters(codec="utf-8"))
    end = place + data.draw(st.integers(0, 1))
    other = text[:place] + character + text[end:]
    assert (read_session([SECRET], other, NOW) is not None) == (other == text)


@given(st.text(max_size=120) | st.none() | st.binary())
def test_anything_else_is_no_session(text: Any) -> None:
    assert read_session([SECRET], text, NOW) is None


def test_a_session_from_the_future_or_without_an_end_to_speak_of_is_none() -> None:
    assert read_session([SECRET], opened(), NOW - timedelta(seconds=30)) is not None
    assert read_session([SECRET], opened(), NOW - timedelta(minutes=2)) is None


def test_a_signature_for_one_purpose_is_none_for_the_other() -> None:
    text = opened()
    token = csrf_token(SECRET, text)
    signed, _, signature = text.rpartition(".")
    assert token != signature
    assert read_session([SECRET], f"{signed}.{token}", NOW) is None
    assert not csrf_matches([SECRET], signed, signature)


def test_a_sessions_token_is_its_own() -> None:
    text, other = opened(), opened()
    token = csrf_token(SECRET, text)
    assert csrf_matches([SECRET], text, token)
    assert not csrf_matches([SECRET], other, token)
    assert not csrf_matches([OTHER], text, token)


@pytest.mark.parametrize("given_as", [None, "", "é", "0" * 64, 5])
def test_a_request_without_the_token_does_not_match(given_as: Any) -> None:
    assert not csrf_matches([SECRET], opened(), given_as)


@pytest.mark.parametrize("lasts", [timedelta(0), timedelta(days=91)])
def test_a_session_has_an_end(lasts: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="A session lasts"):
        open_session(SECRET, "abc", NOW, lasts)


@pytest.mark.parametrize("key", ["", "a.b", "a\n", "é"])
def test_a_session_stands_for_an_id_and_nothing_else(key: str) -> None:
    with pytest.raises(ConfigurationError, match="letters and digits"):
        opened(key)


def test_a_short_secret_is_refused_and_a_new_one_is_long() -> None:
    with pytest.raises(ConfigurationError, match="at least 32 bytes"):
        open_session(b"short", "abc", NOW, HOUR)
    assert len(new_session_secret()) == 32
    assert new_session_secret() != new_session_secret()
