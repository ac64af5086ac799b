"""The one list of names of credentials, and the credentials in URLs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.jobtypes.http.response import keep_headers
from mainspring.jobtypes.http.secret_references import Scrubber
from mainspring.model.privacy.credentials import (
    CREDENTIALS,
    is_credential,
    mask_credentials,
    mask_urls,
    url_credentials,
)
from mainspring.model.privacy.redaction import DEFAULT_REDACT, Redaction

REDACTED = "[redacted]"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "Set-Cookie",
            "X-Api-Key",
            "api_key",
            "apiKey",
            "X-Auth-Key",
        ),
        *(
            "Ocp-Apim-Subscription-Key",
            "x-functions-key",
            "X-Amz-Security-Token",
            "X-Amz-Signature",
            "sig",
            "X-Sig-Key",
        ),
        *("accessToken", "refresh_token", "password", "db-password", "clientSecret", "secret_key", "AWSAccessKey"),
        *("X-Amz-Credential", "credentials", "passphrase", "X-Token-Id-2", "x_secret_2"),
        *("mysql-passwd", "privateKey", "clientSecretKey", "subscriptionKey", "db_password_2", "X-Api-Key-2"),
    ],
)
def test_a_name_of_credentials_is_one_in_every_place(name: str) -> None:
    assert is_credential(name)
    assert Redaction(DEFAULT_REDACT).shown({name: "x"}) == {name: REDACTED}
    assert mask_credentials({"deep": [{name: ["x"]}]}) == {"deep": [{name: REDACTED}]}
    assert mask_urls(f"https://a.example/?a=1&{name}=x#b") == f"https://a.example/?a=1&{name}={REDACTED}#b"


@pytest.mark.parametrize(
    "name", ["Accept", "Idempotency-Key", "X-Idempotency-Key", "tokens", "max_tokens", "key", "monkey", "public_key",
             "author", "secretary", "sort_key", "design", "cache_key", "dedupe_key", "foreign_key", "object_key",
             "partition_key", "primary_key", "routing_key"]
)  # fmt: skip
def test_other_names_are_none(name: str) -> None:
    assert not is_credential(name)
    assert Redaction(DEFAULT_REDACT).shown({name: "x"}) == {name: "x"}


def test_a_name_that_the_list_passes_over_is_hidden_where_it_is_written_out() -> None:
    assert Redaction([*CREDENTIALS, "sort_key"]).shown({"sort_key": "x"}) == {"sort_key": REDACTED}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://a.example/?token=abc", f"https://a.example/?token={REDACTED}"),
        (
            "see https://a.example/x?n=1&api%5Fkey=a%20b, please",
            f"see https://a.example/x?n=1&api%5Fkey={REDACTED} please",
        ),
        ('{"u":"https://a.example/#access_token=abc"}', f'{{"u":"https://a.example/#access_token={REDACTED}"}}'),
        ("https://a.example/?n=1;token=abc", f"https://a.example/?n=1;token={REDACTED}"),
        ("https://a.example/?token={{data.t}}&x=1", "https://a.example/?token={{data.t}}&x=1"),
        ("https://a.example/?token={{ data.t }}", "https://a.example/?token={{ data.t }}"),
        ("https://a.example/?token={{data.t}}abc", f"https://a.example/?token={REDACTED}"),
        ("https://a.example/?token=", "https://a.example/?token="),
        ("https://a.example/?page=2", "https://a.example/?page=2"),
        ("a?token=abc", "a?token=abc"),
    ],
)
def test_the_values_of_credentials_in_the_query_of_a_url_are_masked(text: str, shown: str) -> None:
    assert mask_urls(text) == shown
    assert mask_urls(shown) == shown
    assert mask_credentials({"deep": [text]}) == {"deep": [shown]}
    assert Redaction([]).shown({"deep": [text]}) == {"deep": [shown]}, "whatever names are chosen"


def test_the_credentials_of_a_url_are_hidden_in_other_texts_too() -> None:
    assert list(url_credentials("https://a.example/?token=a+b-c")) == ["a+b-c", "a b-c"]
    text = "https://a.example/?token=a%2Fb-c&page=2"
    assert list(url_credentials(text)) == ["a%2Fb-c", "a/b-c"]
    for patterns in ([], ["pin"], ["card.*"]):
        assert Redaction(patterns).hidden({"x": [text]}) == ["a%2Fb-c", "a/b-c"]


def test_an_answers_headers_are_kept_without_the_credentials_in_their_urls() -> None:
    kept = keep_headers([("Location", "https://a.example/?token=abc")], Scrubber())
    assert kept == {"location": f"https://a.example/?token={REDACTED}"}


@given(st.text(max_size=200), st.sampled_from(["token", "sig", "X-Api-Key"]))
@pytest.mark.slow
def test_masking_is_cheap_to_repeat_and_leaves_nothing_of_a_plain_value(around: str, name: str) -> None:
    value: Any = f"https://a.example/?{name}=canary-canary&{around}"
    assert "canary" not in mask_urls(value)
    assert mask_urls(mask_urls(value)) == mask_urls(value)
