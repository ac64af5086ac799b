"""API keys: which texts are keys, which key they are, what it may do, and that a secret is shown once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ConfigurationError, InvalidKey
from mainspring.model.access.api_keys import (
    ADMIN,
    EVERYTHING,
    OPERATOR,
    ROLES,
    VIEWER,
    Key,
    Scope,
    key_id,
    made_with,
    make_scope,
    new_key,
    rotated_key,
    secret_hash,
    verify,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=1)


def made(**options: Any) -> tuple[str, Key]:
    return new_key("deploy", OPERATOR, NOW, **options)


def test_a_new_key_is_told_by_its_text() -> None:
    text, key = made()
    assert (key_id(text), key.name, key.role, key.created_at) == (key.id, "deploy", OPERATOR, NOW)
    assert verify(text, key, LATER)


def test_of_the_secret_only_a_hash_is_kept() -> None:
    text, key = made()
    secret = text.split("_")[2]
    assert key.hash == sha256(secret.encode()).hexdigest()
    assert secret not in repr(key)
    assert key.hash not in repr(key)


def test_no_two_keys_are_alike() -> None:
    keys = [made() for _ in range(200)]
    assert (
        len({key.id for _, key in keys}) == len({text for text, _ in keys}) == len({key.hash for _, key in keys}) == 200
    )


def test_another_keys_text_is_not_this_key() -> None:
    text, key = made()
    other, _ = made()
    mixed = f"ms_{key.id}_{other.split('_')[2]}"
    assert not verify(other, key, NOW)
    assert not verify(mixed, key, NOW)
    assert not verify(text, replace(key, id="a" * 12), NOW)
    assert not verify(text, None, NOW)


@given(st.data())
def test_a_text_that_differs_anywhere_is_not_the_key(data: st.DataObject) -> None:
    text, key = made()
    place = data.draw(st.integers(0, len(text)))
    character = data.draw(st.characters(codec="utf-8"))
    change = data.draw(st.sampled_from(["replace", "insert", "delete"]))
    end = place if change == "insert" else place + 1
    other = text[:place] + ("" if change == "delete" else character) + text[end:]
    assert verify(other, key, NOW) == (other == text)


@given(st.text(max_size=100) | st.text("ms_09azAZ\n", max_size=70))
def test_what_is_no_key_is_refused_without_showing_any_of_it(tail: str) -> None:
    text = f"ms_canary7_{tail}"
    with pytest.raises(InvalidKey) as caught:
        key_id(text)
    assert str(caught.value) == "This is not an API key; one has the form ms_<id>_<secret>. Copy it whole."
    assert not verify(text, made()[1], NOW)


@pytest.mark.parametrize("wrong", [None, 5, b"ms_x", ""])
def test_a_key_is_text(wrong: Any) -> None:
    assert not verify(wrong, made()[1], NOW)
    with pytest.raises(InvalidKey):
        key_id(wrong)


def test_case_and_space_count() -> None:
    text, key = made()
    for other in (text.swapcase(), f" {text}", f"{text}\n", f"{text}.evil"):
        assert not verify(other, key, NOW)


def test_a_key_ends_when_it_expires_and_when_it_is_revoked() -> None:
    text, key = made(expires_at=LATER)
    assert verify(text, key, LATER - timedelta(milliseconds=1))
    assert not verify(text, key, LATER)
    assert not verify(text, replace(key, revoked_at=NOW), NOW)


def test_after_a_rotation_both_secrets_count_for_the_grace_time() -> None:
    text, key = made()
    fresh, after = rotated_key(key, NOW, timedelta(hours=1))
    assert (after.id, after.role, after.rotated_at) == (key.id, key.role, NOW)
    assert fresh != text
    almost = NOW + timedelta(minutes=59)
    assert verify(text, after, almost) and verify(fresh, after, almost)
    assert not verify(text, after, NOW + timedelta(hours=1))
    assert verify(fresh, after, LATER)


def test_without_grace_the_old_secret_ends_at_once() -> None:
    text, key = made()
    fresh, after = rotated_key(key, NOW)
    assert not verify(text, after, NOW)
    assert verify(fresh, after, NOW)


def test_a_second_rotation_ends_the_first_secret_whatever_its_grace() -> None:
    text, key = made()
    second, once = rotated_key(key, NOW, timedelta(days=2))
    third, twice = rotated_key(once, NOW, timedelta(days=2))
    assert [verify(one, twice, LATER) for one in (text, second, third)] == [False, True, True]


def test_a_secret_that_was_shown_counts_for_as_long_as_a_request_with_it_would() -> None:
    text, key = made(expires_at=NOW + timedelta(days=3))
    shown = secret_hash(text)
    assert key.counts(shown, LATER) and not key.counts(shown, NOW + timedelta(days=3))
    assert not replace(key, revoked_at=NOW).counts(shown, NOW)
    fresh, after = rotated_key(key, NOW, timedelta(hours=1))
    assert after.counts(shown, NOW) and not after.counts(shown, NOW + timedelta(hours=1))
    assert after.counts(secret_hash(fresh), LATER)
    _, at_once = rotated_key(key, NOW)
    assert not at_once.counts(shown, NOW)


def test_the_keys_that_were_made_with_a_key_are_found_however_far_they_are_from_it() -> None:
    root, child, grandchild, other = (made()[1] for _ in range(4))
    child, grandchild = replace(child, actor=f"key:{root.id}"), replace(grandchild, actor=f"key:{child.id}")
    keys = [grandchild, other, child, root]
    assert made_with(keys, root.id) == {child.id, grandchild.id}
    assert made_with(keys, child.id) == {grandchild.id}
    assert made_with(keys, other.id) == made_with([], root.id) == frozenset()
    circle = [replace(root, actor=f"key:{grandchild.id}"), child, grandchild]
    assert made_with(circle, root.id) == {root.id, child.id, grandchild.id}


@pytest.mark.parametrize("grace", [timedelta(seconds=-1), timedelta(days=31)])
def test_a_grace_time_has_bounds(grace: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="from 0 to 30 days"):
        rotated_key(made()[1], NOW, grace)


def test_a_session_does_not_outlive_the_secret_it_was_opened_with() -> None:
    _, key = made(expires_at=LATER)
    assert key.honours(NOW, NOW)
    assert not key.honours(NOW, LATER)
    assert not replace(key, revoked_at=NOW).honours(NOW, NOW)
    _, rotated = rotated_key(key, NOW + timedelta(hours=1), timedelta(hours=1))
    assert rotated.honours(NOW, NOW + timedelta(minutes=119))
    assert not rotated.honours(NOW, NOW + timedelta(hours=2))
    assert rotated.honours(NOW + timedelta(hours=1), NOW + timedelta(hours=3))


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_those_before_it_may(role: str) -> None:
    key = replace(made()[1], role=role)
    assert [one for one in ROLES if key.may(one)] == list(ROLES[: ROLES.index(role) + 1])


def test_a_role_that_is_not_known_may_do_nothing() -> None:
    key = replace(made()[1], role="root")
    assert not any(key.may(role) for role in (VIEWER, OPERATOR, ADMIN))


@pytest.mark.parametrize(
    ("scope", "queue", "name", "allowed"),
    [
        (EVERYTHING, None, None, True),
        (Scope(("mail",)), "mail", "x", True),
        (Scope(("mail",)), "mails", "x", False),
        (Scope(("mail",)), None, "x", False),
        (Scope(None, ("acme.",)), "any", "acme.report", True),
        (Scope(None, ("acme.",)), "any", "acme", False),
        (Scope(None, ("acme.",)), "any", "other.acme.", False),
        (Scope(None, ("acme.", "b.")), None, "b.x", True),
        (Scope(None, ("acme.",)), "any", None, False),
        (Scope(("mail",), ("acme.",)), "mail", "other", False),
        (Scope(("mail",), ("acme.",)), "other", "acme.x", False),
        (Scope(("mail",), ("acme.",)), "mail", "acme.x", True),
        (Scope((), None), "mail", "x", False),
    ],
    ids=str,
)
def test_a_scope_reaches_its_queues_and_names_and_nothing_else(
    scope: Scope, queue: str | None, name: str | None, allowed: bool
) -> None:
    assert scope.allows(queue, name) is allowed


@pytest.mark.parametrize(
    ("one", "other", "covered"),
    [
        (Scope(("mail",)), EVERYTHING, False),
        (Scope(("mail",)), Scope(("mail", "reports")), False),
        (Scope(("mail", "reports")), Scope(("mail",)), True),
        (Scope(("mail",)), Scope(("mail",), ("acme.",)), True),
        (Scope(None, ("acme.",)), Scope(("mail",)), False),
        (Scope(None, ("acme.",)), Scope(None, ("acme.mail.",)), True),
        (Scope(None, ("acme.",)), Scope(None, ("acme.", "other.")), False),
        (Scope(None, ("acme.",)), Scope(None, ("acme",)), False),
    ],
    ids=str,
)
def test_who_gives_rights_away_has_to_have_them(one: Scope, other: Scope, covered: bool) -> None:
    assert one.covers(other) is covered


WORDS = st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=3).map(tuple)
SCOPES = st.builds(Scope, st.none() | WORDS, st.none() | WORDS)


@given(SCOPES, SCOPES, st.text("ab.", max_size=4), st.text("ab.", max_size=4))
def test_a_scope_that_covers_another_allows_all_that_it_allows(one: Scope, other: Scope, queue: str, name: str) -> None:
    if one.covers(other) and other.allows(queue, name):
        assert one.allows(queue, name)
    assert one.covers(one)
    assert EVERYTHING.covers(one)


@given(SCOPES)
def test_a_scope_comes_back_from_its_document(scope: Scope) -> None:
    assert Scope.from_document(scope.to_document()) == scope


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mail", None), "queues must be a list, or None for everything, not 'mail'"),
        (([], None), "queues must have 1 to 100 entries"),
        ((None, []), "prefixes must have 1 to 100 entries"),
        ((None, [""]), "a prefix of names must be printable text"),
        ((["a\n"], None), "a queue's name must be printable text"),
        ((None, [f"p{n}" for n in range(101)]), "prefixes must have 1 to 100 entries"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_scope_that_makes_no_sense_is_refused(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_scope(*arguments)
    assert make_scope(["a", "a"], ("b",)) == Scope(("a",), ("b",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"role": "owner"}, "There is no role 'owner'"),
        ({"role": "oprator"}, "Did you mean 'operator'"),
        ({"name": ""}, "a key's name must be printable text"),
        ({"expires_at": NOW}, "expires_at is in the past"),
        ({"expires_at": datetime(2031, 1, 1)}, "a datetime with a time zone"),
    ],
    ids=str,
)
def test_a_key_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        new_key(**{"name": "deploy", "role": OPERATOR, "now": NOW, **options})
