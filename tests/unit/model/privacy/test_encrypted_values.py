"""EncryptedValue values: what is encrypted, what opens it again and where, and the keys."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128, ObjectId
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from mainspring.cli.app import app
from mainspring.client.link import Link
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.model.privacy.encrypted_values import (
    Encrypt,
    EncryptedValue,
    check_encrypt,
    encrypt_like,
    key_ids_in,
    parsed,
    parsed_data,
    refuse_keys,
)
from mainspring.store.privacy.cipher import DATA, Cipher, KeyMissing, Undecryptable
from mainspring.store.privacy.keyring import (
    FILE_VARIABLE,
    KEYS_VARIABLE,
    Keyring,
    check_keys,
    find_keys,
    kept_keys,
    new_key,
)

OLD, NEW = b"o" * 32, b"n" * 32
JOB: dict[str, Any] = {"_id": ObjectId(), "name": "pay"}

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
    lambda name: name != "__sealed__"
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=30)
    | st.binary(max_size=30)
    | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
data = st.dictionaries(names, values, max_size=5)


def cipher(**keys: bytes) -> Cipher:
    return Cipher(Keyring(keys or {"new": NEW}))


def sealed_job(content: dict[str, Any], encrypt: Encrypt, by: Cipher | None = None, **fields: Any) -> dict[str, Any]:
    return (by or cipher()).encrypted({**JOB, **fields, "data": content, "sealed": encrypt})


@given(data)
def test_all_data_sealed_as_a_whole_opens_to_what_it_was(content: dict[str, Any]) -> None:
    stored = sealed_job(content, Encrypt())
    assert set(stored["data"]) == {"__sealed__", "kid", "n", "c"} and stored["sealed"] == ["new"]
    assert cipher().decrypt_data(stored) == content


@given(data, st.data())
def test_chosen_fields_sealed_open_to_what_they_were_and_the_others_stay(content: dict[str, Any], draw: Any) -> None:
    chosen = draw.draw(st.sets(st.sampled_from(sorted(content)))) if content else set()
    plain = {name for name in chosen if "." not in name and "*" not in name}
    assume("none" not in content)
    stored = sealed_job(content, Encrypt(tuple(plain) or ("none",)))
    assert {name: value for name, value in stored["data"].items() if name not in plain} == {
        name: value for name, value in content.items() if name not in plain
    }
    assert all(isinstance(parsed(stored["data"][name]), EncryptedValue) for name in plain)
    assert cipher().decrypt_data(stored) == content
    assert ("sealed" in stored) == bool(plain)


def test_a_path_goes_through_documents_and_lists() -> None:
    content = {"cards": [{"number": "4111", "name": "Ann"}, {"number": "4222"}], "tags": ["a", "b"], "other": 1}
    stored = sealed_job(content, Encrypt(("cards.number", "tags.*", "not.there")))
    shown = parsed_data(stored["data"])
    assert shown["cards"][0]["name"] == "Ann" and shown["other"] == 1
    assert [type(card["number"]) for card in shown["cards"]] == [EncryptedValue, EncryptedValue]
    assert [type(tag) for tag in shown["tags"]] == [EncryptedValue, EncryptedValue]
    assert cipher().decrypt_data(stored) == content


@pytest.mark.parametrize("value", [ObjectId(), Decimal128("1.5"), b"\0\1", datetime(2026, 1, 2, tzinfo=UTC), None])
def test_the_types_of_values_survive(value: Any) -> None:
    opened = cipher().decrypt_data(sealed_job({"x": value}, Encrypt(("x",))))["x"]
    assert opened == value and type(opened) is type(value)


def test_no_two_values_are_sealed_alike() -> None:
    sealed = [parsed(sealed_job({"x": "same"}, Encrypt(("x",)))["data"]["x"]) for _ in range(2000)]
    assert len({one.nonce for one in sealed}) == len({one.text for one in sealed}) == 2000


def moved_to_another_job(stored: dict[str, Any]) -> None:
    stored["_id"] = ObjectId()


def moved_to_another_name(stored: dict[str, Any]) -> None:
    stored["name"] = "print"


def moved_to_another_field(stored: dict[str, Any]) -> None:
    stored["data"]["other"] = stored["data"].pop("x")


def said_to_be_of_another_key(stored: dict[str, Any]) -> None:
    stored["data"]["x"]["kid"] = "old"


def said_to_be_of_a_schedule(stored: dict[str, Any]) -> None:
    stored["data"]["x"]["of"] = "schedule"


def with_a_bit_changed(stored: dict[str, Any]) -> None:
    text = stored["data"]["x"]["c"]
    stored["data"]["x"]["c"] = bytes([text[0] ^ 1]) + text[1:]


def with_another_nonce(stored: dict[str, Any]) -> None:
    stored["data"]["x"]["n"] = os.urandom(24)


def with_a_short_nonce(stored: dict[str, Any]) -> None:
    stored["data"]["x"]["n"] = b"short"


def cut_short(stored: dict[str, Any]) -> None:
    stored["data"]["x"]["c"] = stored["data"]["x"]["c"][:5]


@pytest.mark.parametrize(
    "tamper",
    [
        moved_to_another_job,
        moved_to_another_name,
        moved_to_another_field,
        said_to_be_of_another_key,
        said_to_be_of_a_schedule,
        with_a_bit_changed,
        with_another_nonce,
        with_a_short_nonce,
        cut_short,
    ],
)
def test_a_value_does_not_open_when_it_was(tamper: Callable[[dict[str, Any]], None]) -> None:
    keys = cipher(new=NEW, old=NEW)
    stored = sealed_job({"x": "secret"}, Encrypt(("x",)), keys)
    tamper(stored)
    with pytest.raises(Undecryptable) as caught:
        keys.decrypt_data(stored)
    assert "secret" not in str(caught.value)


def test_another_key_under_the_same_id_does_not_open_it() -> None:
    with pytest.raises(Undecryptable, match="its key is not the 'new' of this process"):
        cipher(new=OLD).decrypt_data(sealed_job({"x": "secret"}, Encrypt(("x",))))


def test_without_its_key_a_value_says_which_one_it_needs_and_shows_nothing() -> None:
    stored = sealed_job({"x": "secret", "y": 1}, Encrypt(("x",)))
    with pytest.raises(KeyMissing, match="'new'"):
        cipher(old=OLD).decrypt_data(stored)
    job = cipher(old=OLD).decode({**stored, "state": "pending"})
    assert repr(job.data) == "{'x': EncryptedValue('new'), 'y': 1}"
    assert job.encrypted and job.key_ids == ("new",)
    whole = cipher(old=OLD).decode({**sealed_job({"x": "secret"}, Encrypt()), "state": "pending"})
    assert repr(whole.data) == "{'*': EncryptedValue('new')}"


def test_the_first_key_seals_and_all_of_them_open() -> None:
    before = sealed_job({"x": 1}, Encrypt(("x",)), cipher(old=OLD))
    both = cipher(new=NEW, old=OLD)
    assert both.decrypt_data(before) == {"x": 1}
    assert key_ids_in(sealed_job({"x": 1}, Encrypt(("x",)), both)["data"]) == {"new"}


def test_a_schedules_data_opens_in_its_jobs_and_in_no_others() -> None:
    job = {"name": "pay", "data": {"x": "secret"}, "sealed": Encrypt(("x",))}
    template = cipher().encrypt_template("nightly", job, None)
    made = {**template, "_id": "nightly@1", "schedule_id": "nightly"}
    assert cipher().decrypt_data(made) == {"x": "secret"}
    with pytest.raises(Undecryptable):
        cipher().decrypt_data({**made, "schedule_id": "weekly"})
    assert cipher().encrypt_template("nightly", job, template) == template
    changed = cipher().encrypt_template("nightly", {**job, "data": {"x": "other"}}, template)
    assert cipher().decrypt_data({**changed, "schedule_id": "nightly"}) == {"x": "other"}


def test_data_that_carries_the_mark_of_sealed_values_is_refused() -> None:
    with pytest.raises(InvalidJob, match="rename it"):
        sealed_job({"x": 1, "y": [{"__sealed__": 1}]}, Encrypt(("x",)))


def test_a_document_that_was_not_sealed_cannot_be_stored() -> None:
    import bson

    with pytest.raises(bson.errors.InvalidDocument):
        bson.encode({**JOB, "data": {"x": 1}, "sealed": Encrypt(("x",))})


def test_what_takes_the_place_of_sealed_data_is_sealed_in_the_same_places() -> None:
    content = {"cards": [{"number": "4111"}], "iban": "DE00", "n": 1}
    assert encrypt_like(sealed_job(content, Encrypt())["data"]) == Encrypt()
    assert encrypt_like(sealed_job(content, Encrypt(("iban", "cards.number")))["data"]) == Encrypt(
        ("cards.*.number", "iban")
    )
    assert encrypt_like(content) is None
    dotted = {"a.b": sealed_job({"iban": 1}, Encrypt(("iban",)))["data"]["iban"]}
    assert encrypt_like(dotted) == Encrypt()


@pytest.mark.parametrize(
    ("encrypt", "key", "covered"),
    [
        (Encrypt(), "tenant", True),
        (Encrypt(("card.number",)), "card.number", True),
        (Encrypt(("card",)), "card.number", True),
        (Encrypt(("card.number",)), "card", True),
        (Encrypt(("*.number",)), "card.number", True),
        (Encrypt(("card.number",)), "card.name", False),
        (Encrypt(("card.number",)), "number", False),
    ],
)
def test_a_key_of_a_limit_must_not_be_encrypted(encrypt: Encrypt, key: str, covered: bool) -> None:
    if covered:
        with pytest.raises(ConfigurationError, match="encrypted"):
            refuse_keys(encrypt, [key], "A limit")
    else:
        refuse_keys(encrypt, [key], "A limit")


def test_what_is_to_be_encrypted_is_true_or_a_list_of_paths() -> None:
    assert check_encrypt(True) == Encrypt() and check_encrypt(False) is None and check_encrypt(None) is None
    assert check_encrypt(["a.b", "c", "a.b"]) == Encrypt(("a.b", "c"))
    assert Encrypt(("a",)) | Encrypt(("b",)) == Encrypt(("a", "b")) and Encrypt(("a",)) | Encrypt() == Encrypt()
    for wrong in ("card", [], [1], ["a..b"], [""], {"a": 1}, 5):
        with pytest.raises(ConfigurationError):
            check_encrypt(wrong)


# -- keys ------------------------------------------------------------------------------------------------------------


def line(key_id: str, key: bytes) -> str:
    return f"{key_id}:{base64.b64encode(key).decode()}"


def test_keys_come_from_the_environment_in_their_order() -> None:
    ring = find_keys(None, {KEYS_VARIABLE: f" {line('2026b', NEW)}, {line('2026a', OLD)}"})
    assert ring.ids == ("2026b", "2026a") and ring.current == ("2026b", NEW) and ring.get("2026a") == OLD
    assert ring.get("other") is None
    assert find_keys({"x": NEW}, {KEYS_VARIABLE: line("y", OLD)}).ids == ("x",)
    assert find_keys(None, {}).ids == ()
    with pytest.raises(ConfigurationError, match=KEYS_VARIABLE):
        _ = find_keys(None, {}).current


def test_a_new_key_is_as_the_environment_wants_it() -> None:
    ring = find_keys(None, {KEYS_VARIABLE: f"{new_key('2026c')},{new_key()}"})
    assert ring.ids[0] == "2026c" and len(set(ring.keys.values())) == 2


SECRET = base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        f":{SECRET}",
        f"{SECRET}:2026a",
        f"{SECRET.rstrip('=')}:2026a",
        f"2026a:{SECRET[:20]}",
        f"2026a:{SECRET}AAAA",
        f"2026a={SECRET}",
        f"2026a:{SECRET}!",
        f"2026a:{SECRET},2026a:{SECRET}",
        f"bad id:{SECRET}",
    ],
)
def test_a_bad_key_is_refused_and_never_shown(written: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(written.replace(",", "\n"))
    for environment in ({KEYS_VARIABLE: written}, {FILE_VARIABLE: str(file)}):
        with pytest.raises(ConfigurationError) as caught:
            find_keys(None, environment)
        told = str(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__context__)
        assert not any(SECRET[at : at + 12] in told for at in range(len(SECRET) - 12))


@pytest.mark.parametrize("wrong", [{"a": b"short"}, {"a": 5}, {"a": "x"}, {5: NEW}, {"": NEW}, [NEW], "a:b"])
def test_keys_that_a_program_gives_are_checked(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        check_keys(wrong)


def test_a_keyring_shows_its_ids_only() -> None:
    assert repr(Keyring({"a": b"k" * 32, "b": b"l" * 32})) == "<Keyring a, b>"


def test_a_file_of_keys_is_read_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("mainspring.store.privacy.keyring.monotonic", lambda: now[0])
    file = tmp_path / "keys"
    file.write_text(f"# the keys\n{line('old', OLD)}\n\n")
    ring = find_keys(None, {FILE_VARIABLE: str(file)})
    assert list(ring.ids) == ["old"]
    file.write_text(f"{line('new', NEW)}\n{line('old', OLD)}\n")
    now[0] += 1
    assert ring.get("new") == NEW  # one that is not known is looked for at once
    assert list(ring.ids) == ["new", "old"] and ring.current[0] == "new"
    file.write_text("nonsense")
    now[0] += 10
    assert list(ring.ids) == ["new", "old"]
    file.unlink()
    now[0] += 10
    assert list(ring.ids) == ["new", "old"]


def test_a_file_of_keys_that_is_not_there_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find_keys(None, {FILE_VARIABLE: str(tmp_path / "none")})


def test_a_file_of_keys_that_is_made_is_its_owners_alone_and_has_one_key(tmp_path: Path) -> None:
    file = tmp_path / "audit.key"
    with ThreadPoolExecutor(8) as pool:
        rings = [*pool.map(lambda _: kept_keys(file), range(16))]
    assert len({str(ring.keys) for ring in rings}) == 1
    assert file.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["audit.key"]
    with pytest.raises(ConfigurationError, match="cannot be made"):
        kept_keys(tmp_path / "none" / "audit.key")


async def test_an_embedded_server_has_a_key_for_its_audit_log_unless_one_is_given(tmp_path: Path) -> None:
    settings, clock = Settings(), ManualClock()
    made = await Link(f"embedded:{tmp_path}", None, settings, clock).keys_of_audit()
    again = await Link(f"embedded:{tmp_path}", None, settings, clock).keys_of_audit()
    assert made.keys == again.keys != {}
    given = Link(f"embedded:{tmp_path}", None, settings, clock, audit_keys=Keyring({"a": OLD}))
    assert (await given.keys_of_audit()).ids == ("a",)
    assert (await Link("mongodb://127.0.0.1:9", None, settings, clock).keys_of_audit()).ids == ()


def test_the_library_is_asked_for_by_its_extra_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(InvalidJob, match=r'pip install "mainspring\[encryption\]"'):
        cipher().check({**JOB, "data": {}, "sealed": Encrypt()})


def test_a_sealed_value_survives_a_pipe_to_another_process() -> None:
    sealed = cipher().encrypt(JOB, (DATA, "x"), 1)
    assert pickle.loads(pickle.dumps(sealed)) == sealed


def test_the_command_prints_a_new_key() -> None:
    printed = CliRunner().invoke(app, ["generate-key", "2026a"])
    assert printed.exit_code == 0
    assert find_keys(None, {KEYS_VARIABLE: printed.stdout}).ids[0] == "2026a"
