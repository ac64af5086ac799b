"""What is filled in has a bound, and reaching it costs no more memory than the bound."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from mainspring import ConfigurationError, InvalidJob
from mainspring.jobtypes.http.bodies import LONGEST_BODY, build_body
from mainspring.jobtypes.http.headers import LONGEST_HEADER, fill_headers
from mainspring.jobtypes.http.request import parse_request
from mainspring.jobtypes.http.templates import Facts
from mainspring.jobtypes.http.urls import LONGEST_URL, build_url

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LARGE = {"x": "y" * 131_072, "list": ["y" * 1000] * 100, "wide": "é" * 100_000}
FACTS = Facts("job-1", 1, NOW, LARGE, 1, NOW)
MANY = 13_107
ALLOWED = 24 << 20


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("{{data.x}}" * MANY, None),
        ("{{data.x}}" * MANY, "application/x-www-form-urlencoded"),
        ("{{data.wide}}" * MANY, "text/xml"),
        (["{{data.x}}"] * MANY, None),
        (["{{data.list}}"] * MANY, None),
        ({"a": "-" + "{{data.x}}" * MANY}, None),
        ({str(number): {"a": "{{data}}"} for number in range(1000)}, None),
        ('["{{data.x}}"' + ', "{{data.list}}"' * 4000 + "]", "application/json"),
    ],
)
def test_a_body_that_grows_beyond_its_bound_is_refused_at_the_bound(body: Any, kind: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"The body is larger than 1,048,576"):
        bounded(lambda: build_body(body, kind, FACTS))


def test_escaping_counts_too() -> None:
    facts = Facts("job-1", 1, NOW, {"x": "\U0001f600" * 100_000}, 1, NOW)
    with pytest.raises(ConfigurationError, match=r"larger than 1,048,576 bytes"):
        build_body({"x": "{{data.x}}"}, None, facts)
    with pytest.raises(ConfigurationError, match="The body is larger"):
        build_body("{{data.x}}", "application/x-www-form-urlencoded", facts)


@pytest.mark.parametrize(
    ("url", "query"),
    [
        ("https://a.example/{{data.x}}", {}),
        ("https://a.example/" + "{{data.x}}" * 700, {}),
        ("https://a.example/?q={{data.wide}}", {}),
        ("https://a.example/", {"q": "{{data.x}}" * MANY}),
        ("https://a.example/", {"q": ["{{data.x}}"] * MANY}),
        ("https://a.example/", {"q": "y" * 9000}),
    ],
)
def test_a_url_that_grows_beyond_its_bound_is_refused_at_the_bound(url: str, query: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"The URL is larger than 8,192"):
        bounded(lambda: build_url(url, query, FACTS))


def test_a_header_that_grows_beyond_its_bound_is_refused_at_the_bound() -> None:
    secrets = {"s": "z" * 32_000}
    for value in ("{{data.x}}", "{{data.x}}" * 700, "secret://s " * 700, "{{data.list}}"):
        with pytest.raises(ConfigurationError, match=r"The value for the header X is larger than 8,000"):
            bounded(partial(fill_headers, {"X": value}, FACTS, secrets))


def test_what_fits_exactly_is_sent() -> None:
    def filled(length: int) -> Facts:
        return Facts("job-1", 1, NOW, {"x": "y" * length}, 1, NOW)

    assert len(build_body("{{data.x}}{{data.x}}", None, filled(LONGEST_BODY // 2))[0]) == LONGEST_BODY
    base = "https://a.example/?q="
    assert len(str(build_url(base + "{{data.x}}", {}, filled(LONGEST_URL - len(base))))) == LONGEST_URL
    assert len(fill_headers({"X": "{{data.x}}"}, filled(LONGEST_HEADER), {})["X"]) == LONGEST_HEADER
    assert fill_headers({"X": "Bearer secret://s"}, filled(1), {"s": "z" * 7_000})["X"] == "Bearer " + "z" * 7_000


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"body": "{{data.x}}" * 4000}, "body is larger"),
        ({"url": "https://a.example/{{data.x}}"}, "URL is larger"),
        ({"query": {"q": "{{data.x}}"}}, "URL is larger"),
        ({"query": {"q": "y" * 9000}, "templates": False}, "URL is larger"),
        ({"headers": {"X": "{{data.x}}"}}, "header X is larger"),
    ],
)
def test_what_can_be_told_to_be_too_large_is_refused_when_the_job_is_made(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        parse_request({"url": "https://a.example/", **fields}, {"x": "y" * 10_000})


def bounded(act: Callable[[], object]) -> None:
    """Do something that takes little memory, whatever it raises."""
    tracemalloc.start()
    try:
        act()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < ALLOWED, f"{peak:,} bytes"
