"""What is not shown: fields by their names, and their values wherever else they turn up."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.inside import inside
from mainspring import Job, JobError, Scheduler
from mainspring.cli.support.live import Live
from mainspring.errors import ConfigurationError
from mainspring.model.privacy import credentials
from mainspring.model.privacy.credentials import REDACTED
from mainspring.model.privacy.encrypted_values import EncryptedValue
from mainspring.model.privacy.redaction import (
    DEFAULT_REDACT,
    ENCRYPTED,
    Redaction,
    Redactor,
    check_redact,
    sealed_values,
    without_sealed,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def shown(patterns: list[str] | tuple[str, ...], value: Any) -> Any:
    return Redaction(patterns).shown(value)


def test_a_bare_name_hides_its_values_at_any_depth() -> None:
    content = {"password": "a", "deep": {"er": [{"password": {"x": 1}, "name": "Ann"}]}, "name": "Ann"}
    assert shown(["password"], content) == {
        "password": REDACTED,
        "deep": {"er": [{"password": REDACTED, "name": "Ann"}]},
        "name": "Ann",
    }


def test_a_path_counts_from_the_top_and_passes_lists_over() -> None:
    content = {"token": 1, "a": {"token": 2, "b": {"token": 3}}, "list": [{"token": 4}], "card": {"no": 5, "cvc": 6}}
    assert shown(["*.token"], content) == {
        "token": 1,
        "a": {"token": REDACTED, "b": {"token": 3}},
        "list": [{"token": REDACTED}],
        "card": {"no": 5, "cvc": 6},
    }
    assert shown(["card.*"], content)["card"] == {"no": REDACTED, "cvc": REDACTED}
    assert shown(["card.*"], {"card": [{"no": 1}, 2]})["card"] == [REDACTED, REDACTED]


@pytest.mark.parametrize(
    "name", ["password", "PASSWORD", "Api-Key", "api_key", "apiKey", "Authorization", "db_password"]
)
def test_the_usual_names_of_secrets_are_hidden_by_default(name: str) -> None:
    assert shown(DEFAULT_REDACT, {name: "x"}) == {name: REDACTED}


@pytest.mark.parametrize("name", ["passwords_changed", "tokens", "secretary", "author", "key"])
def test_other_names_are_not(name: str) -> None:
    assert shown(DEFAULT_REDACT, {name: "x"}) == {name: "x"}


def test_nothing_is_copied_where_nothing_is_hidden() -> None:
    content = {"a": [{"b": 1}]}
    assert Redaction(DEFAULT_REDACT).shown(content) is content
    assert Redaction([]).shown({"password": 1}) == {"password": 1}


def test_the_names_are_a_list_of_names_and_paths() -> None:
    assert check_redact(["a", "b.c", "a"]) == ("a", "b.c") and check_redact(None, ("x",)) == ("x",)
    assert check_redact([], ("x",)) == ()
    for wrong in ("password", [1], ["a..b"], 5, [""]):
        with pytest.raises(ConfigurationError):
            check_redact(wrong)


# -- values in texts -------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.lists(st.text(min_size=4, max_size=12), min_size=1, max_size=100),
    st.lists(st.text(max_size=8), max_size=10),
    st.data(),
)
def test_no_value_is_left_in_a_text(secrets: list[str], others: list[str], draw: Any) -> None:
    text = "".join(draw.draw(st.permutations([*secrets, *others])))
    left = Redactor(secrets).text(text)
    # What is left of the text stands between the words that were put in; no part of it has a value.
    assert not any(secret in part for part in left.split(REDACTED) for secret in secrets)


def test_values_that_overlap_are_gone_entirely() -> None:
    assert Redactor(["abcdef", "defghi"]).text("x abcdefghi y abcdefabcdef") == f"x {REDACTED} y {REDACTED}"


def test_where_there_are_many_values_they_are_found_all_the_same() -> None:
    secrets = [f"secret-{number:04}" for number in range(500)]
    assert Redactor(secrets).text("it was secret-0123, secret-9999 and secret-0499") == (
        f"it was {REDACTED}, secret-9999 and {REDACTED}"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("hunter2", "password hunter2 is wrong"),
        ("it's\n'quoted'", "KeyError: " + repr("it's\n'quoted'")),
        ("grüße\t!", json.dumps({"x": "grüße\t!"})),
        ("  padded  ", "strip() made it padded"),
        ("-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\n-----END KEY-----", "bad line: MIIEpAIBAAKCAQEA"),
        (4111111111111111, "card 4111111111111111 refused"),
        (-1234567, "1234567"),
        (123456.75, "amount 123456.75"),
        (b"s3cret-bytes", "b's3cret-bytes'"),
        ({"a": ["nested-value", {"b": "deeper-value"}]}, "nested-value deeper-value"),
        (datetime(1980, 2, 3, tzinfo=UTC), "born 1980-02-03"),
    ],
)
def test_a_value_is_found_as_it_is_usually_written(value: Any, text: str) -> None:
    left = Redactor([value]).text(text)
    assert REDACTED in left and left != text


@pytest.mark.parametrize("value", ["abc", "", 12345, True, None, 1.5])
def test_a_short_value_is_too_common_to_be_looked_for(value: Any) -> None:
    assert not Redactor([value])
    assert Redactor([value]).text("abc 12345 True None 1.5") == "abc 12345 True None 1.5"


def test_an_error_is_covered_with_its_type_and_stack() -> None:
    error = Redactor(["hunter2"]).error(JobError("app.hunter2", "bad hunter2", "File x\n  hunter2\n"))
    assert error == JobError(f"app.{REDACTED}", f"bad {REDACTED}", f"File x\n  {REDACTED}\n")


def test_a_veil_survives_a_pipe_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(Redactor(["hunter2"]))).text("x hunter2") == f"x {REDACTED}"


# -- encrypted values ------------------------------------------------------------------------------------------------


def test_an_encrypted_value_is_shown_as_a_word() -> None:
    kept = {"a": EncryptedValue("k"), "b": [1, EncryptedValue("k")]}
    assert without_sealed(kept) == {"a": ENCRYPTED, "b": [1, ENCRYPTED]}
    assert list(sealed_values(kept, {"a": "x", "b": [1, "y"]})) == ["x", "y"]
    assert list(sealed_values({"*": EncryptedValue("k")}, {"a": 1})) == [{"a": 1}]
    assert list(sealed_values(kept, kept)) == []


def test_the_repr_of_a_job_shows_nothing_that_anybody_has_put_into_it() -> None:
    job = Job("1", "pay", {"x": "hunter2"}, "failed", "default", 5, NOW, NOW, result="hunter2", log=("hunter2",))
    assert repr(job) == "<Job 1 'pay' failed, queue 'default', tries 0>"
    assert "hunter2" not in f"{job}"


def test_the_live_view_of_events_shows_no_redacted_value(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:9")
    Live(scheduler, lambda: None)
    error = JobError("ValueError", "x" * 150 + "hunter2-secret")
    job = Job("1", "login", {"password": "hunter2-secret"}, "failed", "default", 5, NOW, NOW, error=error)
    inside(scheduler).events.emit("job:fail", job)
    assert "hunt" not in capsys.readouterr().out


def test_the_names_in_a_long_list_are_compared_with_each_path_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data of a flow has hundreds of nodes with the same fields, and is read at each run of its root."""
    redaction = Redaction([f"nodes.data.{name}" for name in (*DEFAULT_REDACT, "pin")])
    compared: list[str] = []
    normal = credentials._normal

    def noted(name: str) -> str:
        compared.append(name)
        return normal(name)

    monkeypatch.setattr(credentials, "_normal", noted)
    data = {"nodes": [{"name": f"n{n}", "data": {"pin": n + 1_000_000}} for n in range(300)]}
    assert redaction.hidden(data) == [n + 1_000_000 for n in range(300)]
    assert len(compared) < 1_500
    assert redaction.shown({"nodes": [{"data": {"X-Token": "a", "ok": "b"}}]}) == {
        "nodes": [{"data": {"X-Token": REDACTED, "ok": "b"}}]
    }
