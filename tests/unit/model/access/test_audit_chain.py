"""The audit log's chain: whatever is done to a row breaks it there; and what is kept of a value."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import AuditKeyMissing
from mainspring.model.access.audit import (
    BEGINNING,
    LONGEST_VALUE,
    SEAL,
    Entry,
    Head,
    Keys,
    Link,
    Row,
    Verdict,
    Walk,
    find_end,
    hash_of,
    is_signed,
    sign_head,
    to_fields,
    write_rows,
)
from mainspring.model.privacy.credentials import mask_credentials

NOW = datetime(2030, 1, 1, tzinfo=UTC)


NO_KEYS: Keys = {}


def written(*entries: Entry, at: datetime = NOW, link: Link | None = None, keys: Keys = NO_KEYS) -> list[Row]:
    named = [(f"{number:024x}", entry) for number, entry in enumerate(entries)]
    return write_rows(link or Link(), named, at, mask_credentials, keys)


def chain(length: int = 5, keys: Keys = NO_KEYS, link: Link | None = None) -> list[dict[str, Any]]:
    entries = [Entry("ada", "job.cancel", f"job {n}", after=n) for n in range(length)]
    return [to_fields(row) for row in written(*entries, link=link, keys=keys)]


def check_rows(link: Link, rows: list[dict[str, Any]], known: list[Link], keys: Keys = NO_KEYS) -> Verdict:
    walk = Walk(link, known, keys)
    walk.follow(rows)
    return walk.verdict()


def one(before: Any = None, after: Any = None) -> Row:
    return written(Entry("ada", "x", "y", before=before, after=after))[0]


def test_rows_are_numbered_from_one_and_each_has_the_hash_before_it() -> None:
    rows = chain(3)
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert [row["prev"] for row in rows] == [BEGINNING, rows[0]["hash"], rows[1]["hash"]]
    assert check_rows(Link(), rows, []).checked == 3


def test_time_never_goes_back_along_the_chain() -> None:
    [first] = written(Entry("ada", "x", "y"))
    link = Link(first.n, first.hash, first.at)
    [second] = written(Entry("bob", "x", "y"), at=NOW - timedelta(hours=1), link=link)
    assert second.at == NOW


@given(st.integers(0, 4), st.sampled_from([*Row.__dataclass_fields__]), st.data())
def test_a_row_that_was_edited_is_named(place: int, field: str, data: st.DataObject) -> None:
    rows = chain()
    values = st.text(max_size=5) | st.none() | st.booleans() | st.floats() | st.datetimes(timezones=st.just(UTC))
    edited = data.draw(values)
    if field == "at" and isinstance(edited, datetime):
        edited = edited.replace(microsecond=0)
    rows[place] = {**rows[place], field: edited}
    if edited == chain()[place][field] and type(edited) is type(chain()[place][field]):
        return
    verdict = check_rows(Link(), rows, [])
    assert (verdict.ok, verdict.broken, verdict.checked) == (False, place + 1, place)


def test_a_row_that_is_made_to_follow_an_edited_one_is_named() -> None:
    rows = chain()
    rows[1] = {**rows[1], "actor": "eve"}
    rows[1]["hash"] = hash_of(rows[1])
    rows[2] = {**rows[2], "prev": rows[1]["hash"]}
    verdict = check_rows(Link(), rows, [])
    assert (verdict.ok, verdict.broken) == (False, 3)


def test_a_row_with_a_hash_of_its_own_breaks_the_next_one() -> None:
    rows = chain()
    rows[1]["actor"] = "eve"
    rows[1]["hash"] = hash_of(rows[1])
    verdict = check_rows(Link(), rows, [])
    assert (verdict.broken, verdict.reason) == (3, "row 3 does not follow row 2")


def test_a_row_with_another_field_is_named() -> None:
    rows = chain()
    rows[2]["note"] = "nothing to see here"
    assert check_rows(Link(), rows, []).broken == 3
    rows = chain()
    del rows[2]["address"]
    assert check_rows(Link(), rows, []).broken == 3


@pytest.mark.parametrize("place", range(4))
def test_a_row_that_was_taken_out_is_named(place: int) -> None:
    rows = chain()
    del rows[place]
    verdict = check_rows(Link(), rows, [])
    assert (verdict.broken, verdict.reason) == (place + 1, f"row {place + 1} is missing")


@pytest.mark.parametrize("number", [0, -1, 2, 2.5, 3.0, "3", None, True])
def test_a_row_that_was_put_in_is_named(number: Any) -> None:
    rows = chain()
    rows.insert(2, {**rows[1], "n": number})
    verdict = check_rows(Link(), rows, [])
    assert not verdict.ok
    assert verdict.checked == 2


def test_a_chain_that_does_not_pass_through_what_is_known_is_another_one() -> None:
    rows = chain()
    assert check_rows(Link(), rows, [Link(3, rows[2]["hash"])]).ok
    verdict = check_rows(Link(), rows, [Link(3, "f" * 64)])
    assert (verdict.broken, verdict.reason) == (3, "row 3 is not the one that was written")


# -- with a key ------------------------------------------------------------------------------------------------------

KEY: Keys = {"a": b"a" * 32}
BOTH: Keys = {"b": b"b" * 32, **KEY}


def link_after(rows: list[dict[str, Any]]) -> Link:
    return Link(rows[-1]["n"], rows[-1]["hash"], rows[-1]["at"])


def test_a_chain_with_a_key_is_checked_by_the_key() -> None:
    rows = chain(keys=KEY)
    assert {row["key"] for row in rows} == {"a"}
    verdict = check_rows(Link(), rows, [], KEY)
    assert (verdict.ok, verdict.checked, verdict.keyed) == (True, 5, True)
    assert not check_rows(Link(), chain(), []).keyed


@given(st.integers(0, 4), st.sampled_from(["actor", "target", "after", "key", "id"]), st.text(max_size=5) | st.none())
def test_a_row_that_was_edited_and_hashed_anew_without_the_key_is_named(place: int, field: str, value: Any) -> None:
    rows = chain(keys=KEY)
    if rows[place][field] == value:
        return
    rows[place] |= {field: value}
    rows[place]["hash"] = hash_of(rows[place])
    verdict = check_rows(Link(), rows, [], KEY)
    assert verdict.broken in (place + 1, place + 2)  # made a row without a key, it breaks the next one


def test_a_whole_chain_that_was_written_anew_without_the_key_is_found() -> None:
    verdict = check_rows(Link(), chain(), [], KEY)
    assert (verdict.ok, verdict.broken, verdict.checked) == (False, 1, 0)
    assert "row 1 has no key's signature" in verdict.reason
    pretended = [{**row, "key": "a"} for row in chain()]
    pretended[0]["hash"] = hash_of(pretended[0])
    assert check_rows(Link(), pretended, [], KEY).reason == "row 1 was changed"
    foreign = chain(keys={"a": b"x" * 32})
    assert check_rows(Link(), foreign, [], KEY).broken == 1


def test_rows_of_an_earlier_key_count_while_that_is_known() -> None:
    old = chain(2, KEY)
    rows = [*old, *chain(2, BOTH, link_after(old))]
    assert [row["key"] for row in rows] == ["a", "a", "b", "b"]
    assert check_rows(Link(), rows, [], BOTH).keyed
    for keys in (KEY, NO_KEYS):
        verdict = check_rows(Link(), rows, [], keys)
        assert (verdict.ok, verdict.broken) == (False, 3 if keys else 1)
        assert "MAINSPRING_AUDIT_KEYS" in verdict.reason


def test_rows_without_a_key_count_once_a_seal_that_has_one_stands_behind_them() -> None:
    plain = chain(3)
    keyed = chain(2, KEY, link_after(plain))
    verdict = check_rows(Link(), [*plain, *keyed], [], KEY)
    assert (verdict.ok, verdict.broken, verdict.checked) == (False, 1, 0)
    [seal] = [to_fields(row) for row in written(Entry("ada", SEAL, "audit"), link=link_after(keyed), keys=KEY)]
    sealed = [*plain, *keyed, seal]
    assert check_rows(Link(), sealed, [], KEY).keyed
    later = chain(1, link=link_after(sealed))
    assert check_rows(Link(), [*sealed, *later], [], KEY).broken == 7
    sealed[1] = {**sealed[1], "actor": "eve"}
    assert check_rows(Link(), sealed, [], KEY).broken == 2


def test_a_seal_without_a_key_accepts_nothing() -> None:
    plain = chain(3)
    forged = [to_fields(row) for row in written(Entry("eve", SEAL, "audit"), link=link_after(plain))]
    assert check_rows(Link(), [*plain, *forged], [], KEY).broken == 1


@pytest.mark.parametrize("field", ["n", "hash", "at", "key", "mac"])
def test_a_head_that_was_changed_is_not_signed(field: str) -> None:
    link = Link(5, "f" * 64, NOW)
    head = sign_head(link, BOTH)
    assert is_signed(head, BOTH)
    links = {"n": Link(4, "f" * 64, NOW), "hash": Link(5, "e" * 64, NOW), "at": Link(5, "f" * 64, NOW.replace(year=1))}
    changed = {"key": Head(link, "a", head.mac), "mac": Head(link, head.key, "0" * 64)}
    forged = Head(links[field], head.key, head.mac) if field in links else changed[field]
    assert not is_signed(forged, BOTH)
    assert not is_signed(head, KEY)


def test_the_next_row_goes_behind_whichever_is_further_of_the_last_row_and_the_head() -> None:
    behind, ahead = Link(3, "3" * 64, NOW), Link(7, "7" * 64, NOW)
    for keys in (NO_KEYS, KEY):
        key_id = next(iter(keys), None)
        assert find_end(ahead, key_id, sign_head(behind, keys), keys).link == ahead
        assert find_end(behind, key_id, sign_head(ahead, keys), keys).link == ahead


@pytest.mark.parametrize("head", [None, Head(Link(3, "3" * 64, NOW)), Head(Link(3, "3" * 64, NOW), "a", "0" * 64)])
def test_behind_a_head_that_was_forged_a_number_is_left_out(head: Head | None) -> None:
    last = Link(3, "3" * 64, NOW)
    end = find_end(last, "a", head, KEY)
    assert (end.forged, end.link.n, end.link.hash) == (True, 4, last.hash)


def test_a_process_without_the_key_does_not_go_on_with_a_log_that_has_one() -> None:
    link = Link(3, "3" * 64, NOW)
    for last_key, head, keys in [
        ("a", sign_head(link, KEY), NO_KEYS),
        (None, sign_head(link, KEY), NO_KEYS),
        ("b", sign_head(link, BOTH), KEY),
    ]:
        with pytest.raises(AuditKeyMissing, match="MAINSPRING_AUDIT_KEYS"):
            find_end(link, last_key, head, keys)


# -- what is kept of a value ---------------------------------------------------------------------------------------


def test_values_are_kept_as_json() -> None:
    row = one({"at": NOW, "n": 2**70, "id": ObjectId("a" * 24), "raw": b"123", "list": (1, 2.5, None, True)}, "x")
    assert row.value_before() == {
        "at": "2030-01-01T00:00:00Z",
        "n": hex(2**70),
        "id": "a" * 24,
        "raw": "(3 bytes)",
        "list": [1, 2.5, None, True],
    }
    assert (row.value_after(), one().value_before()) == ("x", None)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20), st.lists))
def test_every_value_can_be_kept_and_checked(value: Any) -> None:
    rows = written(Entry("a", "b", "c", before=value, after={"x": value}))
    assert check_rows(Link(), [to_fields(row) for row in rows], []).ok
    assert rows[0].after is not None and json.loads(rows[0].after) is not None


@pytest.mark.parametrize(
    "large",
    [
        "x" * 10**6,
        list(range(10**5)),
        {f"k{n}": "v" * 100 for n in range(10**4)},
        [["deep" * 1000] * 100] * 100,
        [[[["é" * 5000] * 15] * 15] * 15],
        16**8000,
    ],
    ids=["text", "list", "document", "deep", "deeper", "number"],
)
def test_a_large_value_is_cut_and_says_so(large: Any) -> None:
    kept = one(large).before
    assert kept is not None
    assert len(kept) <= LONGEST_VALUE
    assert "\\u2026" in kept


def test_a_secret_is_masked_before_a_value_is_cut() -> None:
    secret = "canary7" * 2000
    kept = one({"headers": {"Authorization": secret}, "Api-Key": secret, "list": [{"password": [secret]}]}).before
    assert kept is not None
    assert "canary7" not in kept
    assert json.loads(kept) == {
        "headers": {"Authorization": "[redacted]"},
        "Api-Key": "[redacted]",
        "list": [{"password": "[redacted]"}],
    }


def test_numbers_under_a_name_of_secrets_are_not_masked() -> None:
    assert mask_credentials({"token": 5, "secret": None}) == {"token": 5, "secret": None}


def test_the_short_texts_are_bounded_and_can_be_shown() -> None:
    row = written(Entry("ada\n\x1b[31m", "x" * 1000, "\ud800", address="::1"))[0]
    assert (row.actor, row.target, row.address, len(row.action)) == ("ada\ufffd\ufffd[31m", "\ufffd", "::1", 500)
