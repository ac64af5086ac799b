"""The print of an error: the same for the same trouble, another one for another."""

from __future__ import annotations

import json
import traceback

import pytest

from mainspring.model.dead_letters.fingerprint import fingerprint, outline, place

STACK = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/mainspring/engine/executor.py", line 120, in _run
    return await handler(**arguments)
  File "/srv/app/billing/tasks.py", line {line}, in charge
    client.post(url)
  File "/opt/venv/lib/python3.11/site-packages/httpx/_client.py", line 900, in post
    raise
httpx.ConnectError: refused
"""
AT_TEN, AT_TWENTY = (STACK.replace("{line}", line) for line in ("10", "20"))


def printed(message: str, *, name: str = "charge", type: str = "ValueError", stack: str | None = None) -> str:
    return fingerprint(name, type, message, stack)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 is gone", "order 4711 is gone"),
        ("waited 1.5 s", "waited 30 s"),
        ("no document 6afa81c581cc11707dfef303", "no document 6afa81c5da128c9fd2153d28"),
        ("run 01ffdb6d-f774-4cc6-bdf5-833635a93c69 is over", "run 044d5660-5619-4ead-91ce-f5ecdb18195e is over"),
        ("<object at 0x7f3a10>", "<object at 0x55d0ff91>"),
        ("unknown key 'eins'", "unknown key 'two'"),
        ('unknown key "eins"', 'unknown key "two words"'),
        ("no route to 10.0.0.1:8080", "no route to 192.168.178.20:443"),
        ("cannot reach https://a.example/x?y=1", "cannot reach https://b.example/"),
        ("mail to ada@example.com bounced", "mail to bob.b@example.org bounced"),
        ("/srv/a.py:10: bad", "/srv/a.py:12: bad"),
        ("line one\n  line two", "line one line two"),
        ("text cut in 'the midd", "text cut in 'another midd"),
    ],
)
def test_what_varies_from_job_to_job_makes_no_difference(one: str, other: str) -> None:
    assert printed(one) == printed(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (printed("gone"), printed("here")),
        (printed("gone"), printed("gone", name="refund")),
        (printed("gone"), printed("gone", type="KeyError")),
        (printed("gone", stack=AT_TEN), printed("gone", stack=AT_TEN.replace("in charge", "in refund"))),
        (printed("gone", stack=AT_TEN), printed("gone", stack=AT_TEN.replace("tasks.py", "other.py"))),
        (printed("it isn't there"), printed("it wasn't here")),
    ],
)
def test_another_trouble_has_another_print(one: str, other: str) -> None:
    assert one != other


def test_a_new_line_number_makes_no_difference() -> None:
    assert printed("x", stack=AT_TEN) == printed("x", stack=AT_TWENTY)


def test_the_place_is_the_innermost_of_the_users_own_code() -> None:
    assert place(AT_TEN) == "tasks.py:charge"
    assert place(AT_TEN.replace("/", "\\")) == "tasks.py:charge"


def test_where_all_code_is_installed_the_place_is_the_handler() -> None:
    assert place(AT_TEN.replace("/srv/app", "/opt/venv/lib/python3.11/site-packages")) == "tasks.py:charge"


def test_of_a_chain_of_exceptions_the_last_one_counts() -> None:
    def inner() -> None:
        raise KeyError("first")

    try:
        try:
            inner()
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        stack = "".join(traceback.format_exception(error))
    assert "in inner" in stack
    assert place(stack) == "test_fingerprint.py:test_of_a_chain_of_exceptions_the_last_one_counts"


def test_the_place_in_code_of_libraries_alone_is_the_innermost_there() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        stack = "".join(traceback.format_exception(error))
    foreign = "".join(line for line in stack.splitlines(keepends=True) if "test_fingerprint" not in line)
    assert place(foreign).endswith(":raw_decode")
    assert place(None) == place("") == place("no stack at all") == ""


def test_a_lost_worker_has_one_print_whichever_worker_it_was() -> None:
    one, other = (f"The worker {host}:12:ab died during attempt 1." for host in ("web-one", "web-two"))
    assert printed(one, type="WorkerLost") == printed(other, type="WorkerLost")


def test_nothing_of_the_message_can_be_read_from_the_print() -> None:
    assert "secret" not in printed("secret") and len(printed("secret" * 1000)) == 16
    assert "4711" not in outline("card 4711 of 'ada'") and "ada" not in outline("card 4711 of 'ada'")


def test_a_message_of_any_length_and_kind_has_a_print() -> None:
    for message in ("", "\0", "'" * 5000, "x" * 100_000, "\ud800", "(" * 5000, "9" * 5000):
        assert len(printed(message)) == 16
