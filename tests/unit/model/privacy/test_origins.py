"""Origins of secrets: in one spelling, and matched by scheme, host and port, never by a part of a name."""

from __future__ import annotations

import pytest

from mainspring import ConfigurationError
from mainspring.model.privacy.origins import check_origins, is_among, plain_origin


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("HTTPS://API.Example.com", "https://api.example.com"),
        ("https://api.example.com:443", "https://api.example.com"),
        ("https://api.example.com.", "https://api.example.com"),
        ("http://a.example:8080", "http://a.example:8080"),
        ("https://*.example.com", "https://*.example.com"),
        ("http://[0:0::1]:80", "http://[::1]"),
    ],
)
def test_an_origin_is_kept_in_one_spelling(written: str, kept: str) -> None:
    assert check_origins([written, written]) == (kept,)
    assert check_origins(["*"]) == ("*",)


@pytest.mark.parametrize(
    "wrong",
    [
        *("https://*.com", "https://*", "https://a.*.com", "*.example.com", "https://*.0.0.1", "https://*.[::1]"),
        *("a.example", "https://a.example/", "https://a.example?x", "https://u:p@a.example", "https://a.example:70000"),
        "https://a.example:0",
        *(
            "https://[::1%25lo]",
            "https://münchen.example",
            "https://a..example",
            "ws://a.example",
            " https://a.example",
        ),
        *("https://a.example\n", "", "https://" + "a" * 400, 5, None, ["https://a.example"]),
    ],
)
def test_what_is_no_origin_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="origins"):
        check_origins([wrong])


@pytest.mark.parametrize("wrong", [None, "*", "https://a.example", [], {}, ["*", "https://a.example"], ["*"] * 101])
def test_origins_are_a_list_with_something_in_it(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="origins"):
        check_origins(wrong)


def test_origins_are_a_hundred_at_most() -> None:
    many = [f"https://a{number}.example" for number in range(101)]
    assert check_origins(many[:100]) == tuple(many[:100])
    with pytest.raises(ConfigurationError, match="origins"):
        check_origins(many)


@pytest.mark.parametrize(
    ("target", "allowed", "fits"),
    [
        ("https://api.example.com:443", "https://api.example.com", True),
        ("https://api.example.com:8443", "https://api.example.com", False),
        ("http://api.example.com:80", "https://api.example.com", False),
        ("https://api.example.com.evil.test:443", "https://api.example.com", False),
        ("https://evil-api.example.com:443", "https://api.example.com", False),
        ("https://a.example.com:443", "https://*.example.com", True),
        ("https://a.b.example.com:443", "https://*.example.com", True),
        ("https://example.com:443", "https://*.example.com", False),
        ("https://evilexample.com:443", "https://*.example.com", False),
        ("https://a.example.com.evil.test:443", "https://*.example.com", False),
        ("https://a.example.com:8443", "https://*.example.com", False),
        ("https://a.example.com:8443", "https://*.example.com:8443", True),
        ("http://a.example.com:443", "https://*.example.com", False),
        ("http://a.example.com:80", "https://*.example.com", False),
        ("https://a.example.com:443", "http://*.example.com", False),
        ("https://.example.com:443", "https://*.example.com", False),
        ("http://[::1]:80", "http://[::1]", True),
        ("http://anything.test:80", "*", True),
        ("no origin", "*", False),
        ("", "*", False),
    ],
)
def test_a_target_fits_by_scheme_host_and_port(target: str, allowed: str, fits: bool) -> None:
    assert is_among(target, check_origins([allowed])) is fits
    assert not is_among(target, ())


def test_an_origin_is_told_without_its_usual_port() -> None:
    assert plain_origin("https://a.example:443") == "https://a.example" and plain_origin("nonsense") == "nonsense"
