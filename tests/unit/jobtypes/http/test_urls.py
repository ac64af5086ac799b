"""URLs: plain hosts only, and values that stay in their place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mainspring import ConfigurationError
from mainspring.jobtypes.http.templates import Facts, TemplateError
from mainspring.jobtypes.http.urls import InvalidUrl, build_url, check_url, split_url, target_of

FACTS = Facts("j", 1, datetime(2026, 1, 1, tzinfo=UTC), {}, 1, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://api.example.com/x?y", "https://api.example.com:443"),
        ("HTTP://API.Example.com:8080", "http://api.example.com:8080"),
        ("https://api.example.com.", "https://api.example.com:443"),
        ("http://[2606:4700::1111]:81/", "http://[2606:4700::1111]:81"),
        ("https://bücher.example/", "https://xn--bcher-kva.example:443"),
        ("http://192.0.2.1?x", "http://192.0.2.1:80"),
    ],
)
def test_the_target_is_scheme_host_and_port(url: str, target: str) -> None:
    assert target_of(url) == target


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://a", "file:///etc/passwd", "gopher://a:70", "unix:///x", "//a", "a.example", "", "http:/a", "http://"),
        *(
            "http://u@a",
            "http://u:p@a/",
            "http://a@b@c",
            "http://a\\@b",
            "http://a\\b",
            "http://a b",
            "http://a/ b",
            "http://a/\r\nX: y",
        ),
        *(
            "http://a/x#y",
            "http://127.0.0.1#@a",
            "http://{{data.host}}/",
            "http://a.{{data.tld}}/",
            "http://a:{{data.port}}",
        ),
        *(
            "http://127.1/",
            "http://2130706433",
            "http://0x7f000001",
            "http://0177.0.0.1",
            "http://0x7f.1",
            "http://127.0.0.1.",
        ),
        *(
            "http://１２７.0.0.1",
            "http://①②⑦.0.0.1",
            "http://127。0。0。1",
            "http://[fe80::1%25lo]/",
            "http://[::1",
            "http://a%2eb/",
        ),
        *(
            "http://a:0/",
            "http://a:99999",
            "http://a:x",
            "http://a..b/",
            "http://.a/",
            "http://-/?{{x}}",
            "http://a/{{7*7}}",
        ),
        *(
            "http://a/../b",
            "http://a/%2e%2e/b",
            "http://a/./b",
            "http://a/..%2fb",
            "http://a\x00b",
            "http://a/\u2028",
            "http://" + "a" * 9000,
        ),
    ],
)
def test_a_url_that_is_not_plain_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        check_url(url)


def test_a_refusal_repeats_no_password() -> None:
    with pytest.raises(InvalidUrl, match="Authorization header") as caught:
        split_url("https://user:hunter2@api.example.com/")
    assert "hunter2" not in str(caught.value)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_value_stays_within_its_step_of_the_path_and_its_part_of_the_query(value: str) -> None:
    facts = replace(FACTS, data={"v": value})
    assume(not {".", ".."} & set(value.replace("\\", "/").split("/")))
    url = str(build_url("https://a.example/x/{{data.v}}-/y?a={{data.v}}&b=1", {"q[]": "{{data.v}}"}, facts))
    assert url.isascii()
    head, _, query = url.partition("?")
    assert head.startswith("https://a.example/x/")
    assert unquote(head.split("/")[4]) == value + "-"
    assert head.split("/")[5:] == ["y"]
    assert parse_qsl(query, keep_blank_values=True) == [("a", value), ("b", "1"), ("q[]", value)]


@pytest.mark.parametrize("value", ["..", ".", "../x", "a/../b", "..\\x"])
def test_a_value_cannot_climb_the_path(value: str) -> None:
    with pytest.raises(TemplateError, match="climb"):
        build_url("https://a.example/x/{{data.v}}", {}, replace(FACTS, data={"v": value}))


def test_what_the_author_wrote_is_sent_as_written_and_the_rest_encoded() -> None:
    url = build_url("https://a.example/a%20b/ü%zz;p=1?x=%26&y=[1]", {"b": True, "n": 1, "l": ["a", "b&"]}, None)
    assert url.raw_path_qs == "/a%20b/%C3%BC%25zz;p=1?x=%26&y=%5B1%5D&b=true&n=1&l=a&l=b%26"


def test_with_templates_off_braces_are_only_encoded() -> None:
    assert build_url("https://a.example/{{x}}", {"q": "{{y}}"}, None).raw_path_qs == "/%7B%7Bx%7D%7D?q=%7B%7By%7D%7D"
