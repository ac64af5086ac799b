"""Between documents and jobs: ids, bounds that say what they cut, and showing whatever is stored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ConfigurationError, InvalidJob, Job
from mainspring.engine.run.error_details import describe
from mainspring.model.jobs.job import JobError
from mainspring.store.bounded_values import (
    MAX_DETAILS,
    MAX_LOG_LINE,
    MAX_MESSAGE,
    MAX_STACK,
    MAX_TYPE,
    cut,
    encode_data,
    encode_error,
    encode_result,
)
from mainspring.store.codec import Undecodable, check_fields, decode_job, document_id

LIMIT = 1000


def test_an_id_of_24_hex_digits_is_an_object_id_and_any_other_is_itself() -> None:
    identity = ObjectId()
    assert document_id(str(identity)) == identity
    for text in ("order-17", "ABCDEF" * 4, "g" * 24, "a" * 23, "é"):
        assert document_id(text) == text


@pytest.mark.parametrize("wrong", ["", None, 5, ObjectId()])
def test_an_id_is_text(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="A job's id is a non-empty string, not "):
        document_id(wrong)


def test_data_over_the_limit_is_refused_with_its_cure() -> None:
    with pytest.raises(InvalidJob, match=r"data takes 2,\d\d\d bytes, over the limit of 1,000; store the bulk elsewhe"):
        encode_data({"a": "x" * 2000}, LIMIT)
    encode_data({"a": "x" * 900}, LIMIT)


def _circular() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["self"] = [circle]
    return circle


def _deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


UNSTORABLE: list[Any] = [object(), {"a": object()}, 2**70, "\ud800", {"\0": 1}, _circular(), _deep(300), lambda: None]
NAMES = ["object", "object inside", "huge integer", "lone surrogate", "NUL in a key", "circle", "too deep", "function"]


@pytest.mark.parametrize("value", UNSTORABLE, ids=NAMES)
def test_data_that_cannot_be_stored_is_refused(value: Any) -> None:
    with pytest.raises(InvalidJob, match="data cannot be stored: "):
        encode_data({"value": value}, LIMIT * 100)


@pytest.mark.parametrize("value", UNSTORABLE, ids=NAMES)
def test_a_result_that_cannot_be_stored_is_left_out_with_a_note(value: Any) -> None:
    kept, note = encode_result(value, LIMIT * 100)
    assert kept is None
    assert note == f"The result, of type {type(value).__name__}, cannot be stored and was not kept."


def test_a_result_over_the_limit_is_left_out_with_a_note() -> None:
    for result in ("x" * 2000, ["x" * 2000], "é" * 999):
        kept, note = encode_result(result, LIMIT)
        assert kept is None and note is not None
        assert "bytes is over the limit of 1,000 and was not kept" in note


@pytest.mark.parametrize("result", [None, True, 0, 1.5, "text", [1, {"a": None}], {"a": {"b": [1]}}, b"x", 2**62])
def test_a_result_is_kept_as_it_is(result: Any) -> None:
    assert encode_result(result, LIMIT) == (result, None)


def test_a_result_that_is_nearly_storable_is_kept_as_json_would_have_it() -> None:
    assert encode_result({1, 2}, LIMIT) == ([1, 2], None)
    assert encode_result(timedelta(seconds=90), LIMIT)[1] is None


def test_a_result_of_nothing_fits_a_limit_of_nothing() -> None:
    assert encode_result(None, 0) == (None, None)
    assert encode_result("x", 0)[0] is None


def test_a_long_message_keeps_its_beginning_and_says_how_much_was_cut() -> None:
    document = encode_error(JobError("ValueError", "x" * (MAX_MESSAGE + 1234), None))
    assert document["message"] == "x" * MAX_MESSAGE + "… (1,234 more characters cut)"
    assert "stack" not in document


def test_a_long_stack_keeps_its_end_and_says_that_it_was_cut() -> None:
    document = encode_error(JobError("ValueError", "no", "begin" + "x" * MAX_STACK + "end"))
    assert document["stack"].startswith("… (cut)\n") and document["stack"].endswith("end")
    assert len(document["stack"]) <= MAX_STACK + 20


def test_what_is_kept_of_texts_is_counted_in_bytes() -> None:
    error = encode_error(JobError("例" * 300, "外" * 9000, "誤" * 20_000, {"例": "外" * 20_000}))
    assert len(bson.encode(error)) < 60 + MAX_TYPE + MAX_MESSAGE + MAX_STACK + MAX_DETAILS
    assert error["stack"].startswith("… (cut)\n誤") and error["message"].endswith("more characters cut)")


def test_an_iterator_in_a_result_is_not_run() -> None:
    run: list[int] = []

    def count() -> Iterator[int]:
        run.append(1)
        yield 1

    counted = count()
    assert encode_result({"rows": counted}, LIMIT) == (
        None,
        "The result, of type dict, cannot be stored and was not kept.",
    )
    kept, note = encode_result(counted, LIMIT)
    assert kept is None and note is not None and "an iterator: it was not run and was not kept" in note
    assert run == []


def test_a_short_error_is_kept_whole() -> None:
    assert encode_error(JobError("E", "m", "s")) == {"type": "E", "message": "m", "stack": "s"}


@given(st.text(max_size=40), st.integers(0, 20))
def test_a_cut_text_keeps_its_beginning_in_whole_characters_of_so_many_bytes(text: str, limit: int) -> None:
    kept, dots, rest = cut(text, limit).partition("… (")
    assert text.startswith(kept) and len(kept.encode()) <= limit
    assert bool(dots) == (len(text.encode()) > limit)
    if dots:
        assert rest == f"{len(text) - len(kept):,} more characters cut)"
        assert len(text[: len(kept) + 1].encode()) > limit


def test_a_log_line_says_what_was_cut() -> None:
    assert cut("x" * (MAX_LOG_LINE + 5), MAX_LOG_LINE).endswith("… (5 more characters cut)")


def test_texts_that_utf8_cannot_carry_are_stored_all_the_same() -> None:
    error = encode_error(JobError("OSError", "no such file: caf\udce9", "stack \ud800"))
    assert bson.encode(error) and "no such file: caf" in error["message"]
    assert bson.encode({"line": cut("caf\udce9", MAX_LOG_LINE)})


def test_an_exception_that_cannot_be_shown_is_described_all_the_same() -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    described = describe(Shy())
    assert described.type.endswith("Shy") and described.message == "(its message cannot be shown)"
    assert describe(ValueError("no")).type == "ValueError"


def test_an_error_shows_its_type_and_message() -> None:
    assert str(JobError("ValueError", "no")) == "ValueError: no"
    assert str(JobError("ValueError", "")) == "ValueError"


def test_a_document_with_hardly_a_field_can_be_shown() -> None:
    job = decode_job({"_id": "x"})
    assert (job.id, job.name, job.state, job.queue, job.priority) == ("x", "", "", "default", 5)
    assert (job.attempts, job.tags, job.data, job.token, job.error) == ((), (), {}, 0, None)


NONSENSE: list[Any] = [None, 5, 1e300, float("nan"), "text", True, [], [5], ["x", None], {}, {"error": 5}, b"x"]
FIELDS = (
    "name data state queue priority run_at created_at attempts attempts_cut tries token result result_note error tags "
    "progress log held worker lease_until claimed_at finished_at expires_at start_within timeout dedupe_key cancel "
    "suspect parent_id schedule_id scheduled_for"
)


@pytest.mark.parametrize("field", FIELDS.split())
@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_whatever_is_stored_can_be_shown(field: str, value: Any) -> None:
    job = decode_job({"_id": "x", field: value})
    assert isinstance(job, Job) and repr(job)


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_whatever_is_stored_in_an_attempt_or_a_note_can_be_shown(value: Any) -> None:
    attempt = dict.fromkeys(("n", "token", "outcome", "worker", "started_at", "ended_at", "error", "log"), value)
    note = {"percent": value, "note": value}
    held = {"by": value, "note": value, "since": value}
    error = {"type": value, "message": value, "stack": value}
    job = decode_job({"_id": "x", "attempts": [attempt], "progress": note, "waiting_for": held, "error": error})
    assert repr(job) and str(job.error)
    assert job.attempts[0].duration is None


NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "name must be printable text"),
        ({"name": 5}, "name must be printable text"),
        ({"name": ""}, "name must be printable text"),
        ({"name": "x", "queue": 5}, "queue must be printable text"),
        ({"name": "x", "priority": "high"}, "priority must be a whole number from 1 to 10, not 'high'"),
        ({"name": "x", "priority": 0}, "priority must be a whole number from 1 to 10, not 0"),
        ({"name": "x", "priority": 2.5}, "priority must be a whole number from 1 to 10, not 2.5"),
        ({"name": "x", "priority": True}, "priority must be a whole number"),
        ({"name": "x", "priority": float("nan")}, "priority must be a whole number"),
        ({"name": "x", "priority": float("inf")}, "priority must be a whole number"),
        ({"name": "x", "run_at": "2030-01-01"}, "run_at must be a date, not '2030-01-01'"),
        ({"name": "x", "created_at": 5}, "created_at must be a date"),
        ({"name": "x", "expires_at": 5}, "expires_at must be a date"),
        ({"name": "x", "data": [1]}, r"data must be a document, not \[1\]"),
        ({"name": "x", "retry": 3}, "retry must be a document, not 3"),
        ({"name": "x", "tags": "a"}, "tags must be a list, not 'a'"),
        ({"name": "x", "timeout": "1m"}, "timeout must be seconds, not '1m'"),
        ({"name": "x", "timeout": -1}, "timeout must be seconds, not -1"),
        ({"name": "x", "start_within": float("nan")}, "start_within must be seconds, not nan"),
        ({"name": "x", "start_within": 1e300}, "start_within must be seconds"),
        ({"_id": 5, "name": "x"}, "_id must be an ObjectId or a string, not 5"),
        ({"_id": "ab" * 12, "name": "x"}, "_id must not be a string of 24 hex digits; make it the ObjectId abab"),
    ],
)
def test_a_document_that_is_no_job_says_why(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Undecodable, match=message):
        check_fields(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x"},
        {"name": "x", "queue": "q", "priority": 1.0, "run_at": NOW, "data": {}, "tags": [], "timeout": 5, "retry": {}},
        {"_id": ObjectId(), "name": "x", "priority": bson.Int64(3), "run_at": None, "data": None, "expires_at": None},
        {"_id": "order-17", "name": "x", "queue": None, "priority": None, "tags": None, "timeout": None},
    ],
)
def test_a_document_that_is_a_job_is_taken(fields: dict[str, Any]) -> None:
    check_fields(fields)
