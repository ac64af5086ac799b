"""The audit log's chain: whatever is done to a row breaks it there; and what is kept of a value."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from mainspring.model.audit import (
    BEGINNING,
    LONGEST_VALUE,
    Entry,
    Link,
    Row,
    check_rows,
    hash_of,
    mask_secrets,
    to_fields,
    write_rows,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def written(*entries: Entry, at: datetime = NOW, link: Link | None = None) -> list[Row]:
    named = [(f"{number:024x}", entry) for number, entry in enumerate(entries)]
    return write_rows(link or Link(), named, at, mask_secrets)


def chain(length: int = 5) -> list[dict[str, Any]]:
    return [
        to_fields(row) for row in written(*(Entry("ada", "job.cancel", f"job {n}", after=n) for n in range(length)))
    ]


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
        [[[["é" * 5000] * 30] * 30] * 30],
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
    assert json.loads(kept) == {"headers": {"Authorization": "***"}, "Api-Key": "***", "list": [{"password": "***"}]}


def test_numbers_under_a_name_of_secrets_are_not_masked() -> None:
    assert mask_secrets({"token": 5, "secret": None}) == {"token": 5, "secret": None}


def test_the_short_texts_are_bounded_and_can_be_shown() -> None:
    row = written(Entry("ada\n\x1b[31m", "x" * 1000, "\ud800", address="::1"))[0]
    assert (row.actor, row.target, row.address, len(row.action)) == ("ada\ufffd\ufffd[31m", "\ufffd", "::1", 500)
