"""A webhook as it is written: what is accepted, what is refused, and that no refusal repeats a value."""

from __future__ import annotations

import json
import pickle
import re
from typing import Any

import pytest

from harness.pages import ROOT
from mainspring import InvalidJob
from mainspring.jobtypes.http.webhook import (
    WebhookFailed,
    WebhookRejected,
    WebhookRequest,
    WebhookResponse,
    parse_request,
)

URL = "https://api.example.com/hook"


def test_a_url_alone_is_a_post_of_thirty_seconds_without_redirects() -> None:
    request = parse_request({"url": URL})
    assert (request.method, request.timeout, request.redirects, request.max_response) == ("POST", 30.0, 0, 65536)
    assert request.success == ("2xx",)
    assert request.retry_on == (408, 425, 429, "5xx", "network")
    assert request.to_document() == {"url": URL}


def test_a_request_comes_back_from_its_document_the_same() -> None:
    given = {
        "url": URL + "/{{data.id}}",
        "method": "PUT",
        "headers": {"Authorization": "Bearer secret://token", "X-A": "{{attempt}}"},
        "query": {"a": "1", "b": 2, "c": ["x", "y"], "d": True},
        "body": {"event": "x", "at": "{{timestamp}}", "deep": [1, None, {"a": 1.5}]},
        "timeout": 5.5,
        "success": [200, "3xx"],
        "retry_on": ["4xx", 503],
        "redirects": 2,
        "max_response": 10,
        "sign_with": ["new", "old"],
    }
    request = parse_request(given)
    assert request.to_document() == given
    assert parse_request(request.to_document()) == request
    assert request.secret_names() == {"token", "new", "old"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": 5}, "url"),
        ({"url": "ftp://a"}, "must begin with http"),
        ({"url": URL + "/{{nope}}"}, "not a known template"),
        ({"url": URL + "?k=secret://a"}, "not elsewhere in the URL"),
        ({"query": {"k": "secret://a"}}, "not elsewhere in the URL"),
        ({"query": {"k": "{{nope}}"}}, "not a known template"),
        ({"query": {"k": {"a": 1}}}, "query.k"),
        ({"method": "TRACE"}, "method: must be one of POST"),
        ({"method": "CONNECT"}, "method: must be one of POST"),
        ({"method": "POST\r\nX: y"}, "method: must be one of POST"),
        ({"method": "GET", "body": {}}, "a GET request has none"),
        ({"headers": {"X-A": 1}}, "headers.X-A"),
        ({"headers": {"X A": "1"}}, "name that is none"),
        ({"headers": {"X-A:": "1"}}, "name that is none"),
        ({"headers": {"": "1"}}, "name that is none"),
        ({"headers": {"X-Ä": "1"}}, "name that is none"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "twice"),
        ({"headers": {"X-A": "canary\r\nX-B: 1"}}, "X-A has a value with a line break"),
        ({"headers": {"X-A": "canary\x00"}}, "X-A has a value with a line break"),
        ({"headers": {"X-A": "canary嘊"}}, "X-A has a value with a line break"),
        ({"headers": {"X-A": "{{nope}}"}}, "not a known template"),
        ({"headers": {"X-A": "secret://"}}, "followed by a secret's name"),
        ({"headers": {"webhook-id": "1"}}, "set by Mainspring"),
        ({"headers": {"Mainspring-Fencing-Token": "1"}}, "set by Mainspring"),
        ({"body": "{{nope}}"}, "not a known template"),
        ({"body": {"a": "{{nope}}"}}, "not a known template"),
        ({"body": {"a": float("nan")}}, "JSON has no form for"),
        ({"body": "x" * (1 << 20 | 1)}, "1 MiB"),
        ({"body": "\ud800"}, "."),
        ({"body": {}, "body_base64": "YQ=="}, "together"),
        ({"body_base64": "canary!"}, "not valid base64"),
        ({"timeout": 0.01}, "timeout"),
        ({"timeout": 601}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"success": ["network"]}, "kind of failure"),
        ({"success": [1000]}, "success: must hold statuses"),
        ({"retry_on": [True]}, "retry_on"),
        ({"retry_on": "5xx"}, "retry_on"),
        ({"redirects": 4}, "redirects"),
        ({"max_response": -1}, "max_response"),
        ({"max_response": 1 << 30}, "max_response"),
        ({"sign_with": ["a b"]}, "names of secrets"),
        ({"sign_with": ["a"] * 6}, "sign_with"),
        ({"metod": "GET"}, "no field 'metod'. Did you mean 'method'"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_field_and_without_its_value(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_request({"url": URL, **fields})
    assert said in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "Expect"],
)
def test_headers_of_the_connection_cannot_be_set(name: str) -> None:
    with pytest.raises(InvalidJob, match="belongs to the connection"):
        parse_request({"url": URL, "headers": {name: "x"}})


def test_with_the_jobs_data_a_path_that_leads_nowhere_is_refused() -> None:
    for fields in ({"url": URL + "/{{data.x}}"}, {"body": ["{{data.x}}"]}, {"headers": {"A": "{{data.x}}"}}):
        parse_request({"url": URL, **fields}, {"x": 1})
        with pytest.raises(InvalidJob, match=r"nothing at 'data\.x'"):
            parse_request({"url": URL, **fields}, {"y": 1})


def test_with_templates_off_braces_are_let_through() -> None:
    parse_request({"url": URL, "templates": False, "body": "{{7*7}}", "headers": {"X": "{{y}}"}})


def test_an_error_is_the_same_after_it_was_pickled() -> None:
    response = WebhookResponse(503, {"a": "b"}, "text", None, 5, URL)
    for error in (WebhookRejected("no", response), WebhookFailed("later", response, 3.5), WebhookFailed("later")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_the_reference_has_every_field_with_its_default() -> None:
    page = (ROOT / "docs" / "reference" / "webhooks.md").read_text("utf-8").partition("## Templates")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|([^|]*)\|", page, re.M))
    assert set(rows) == set(WebhookRequest.model_fields)
    for name, field in WebhookRequest.model_fields.items():
        default = json.dumps(field.get_default(call_default_factory=True), default=str)
        assert rows[name].strip() == {"url": "", "body": "none", "body_base64": "none"}.get(name, f"`{default}`")
