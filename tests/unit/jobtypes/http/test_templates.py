"""Templates: a fixed list, one pass, nothing evaluated, and nothing that breaks out of where it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.fuzzing import LONG, examples
from mainspring.jobtypes.http.bodies import build_body, check_body
from mainspring.jobtypes.http.templates import (
    Facts,
    Room,
    TemplateError,
    check_json,
    check_template,
    dump_json,
    parse_template,
    render,
    render_json,
)

pytestmark = LONG
FACTS = Facts(
    "job-1",
    2,
    datetime(2026, 1, 1, tzinfo=UTC),
    {
        "count": 3,
        "name": 'a"b',
        "list": [1, {"x": "deep"}],
        "none": None,
        "yes": True,
        "at": datetime(2026, 1, 2, 3, 4, 5),
    },
    7,
    datetime(2026, 1, 1, 0, 0, 1, 250_000, tzinfo=UTC),
)


def with_data(**data: Any) -> Facts:
    return replace(FACTS, data=data)


def room(most: int = 1000) -> Room:
    return Room("It", most)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{{timestamp}}", "2026-01-01T00:00:01.250Z"),
        ("{{ job.id }}/{{attempt}}", "job-1/2"),
        ("{{scheduled_at}}", "2026-01-01T00:00:00.000Z"),
        ("{{data.count}} {{data.list.1.x}} {{data.none}} {{data.yes}}", "3 deep null true"),
        ("{{data.list}}", '[1,{"x":"deep"}]'),
        ("{{data.at}}", "2026-01-02T03:04:05.000Z"),
        ("} }} { {a}", "} }} { {a}"),
    ],
)
def test_a_template_becomes_its_value(text: str, result: str) -> None:
    assert render(text, FACTS, room()) == result


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{{7*7}}",
            "{{x.__class__}}",
            "{{job}}",
            "{{job.id.x}}",
            "{{secret.NAME}}",
            "{{}}",
            "{{ }}",
            "{{",
            "{{{{attempt}}}}",
        ),
        *(
            "{{data.}}",
            "{{data..a}}",
            "{{data[0]}}",
            "{{data|upper}}",
            "{{timestmap}}",
            "{{attempt",
            "{{a\n}}",
            "{{{attempt}}}",
        ),
        *("{{config.items()}}", "{{datas.x}}", "{{data.a b}}", "{{ATTEMPT}}"),
    ],
)
def test_what_is_no_known_template_is_refused_when_the_job_is_made(text: str) -> None:
    with pytest.raises(TemplateError, match="is not a known template"):
        check_template(text)
    with pytest.raises(TemplateError):
        check_json({"a": [text]})


def test_a_misspelt_name_is_met_with_the_right_one() -> None:
    with pytest.raises(TemplateError, match="Did you mean 'timestamp'"):
        check_template("{{timestmap}}")


@pytest.mark.parametrize(
    "path", ["data.nothing", "data.name.upper", "data.list.9", "data.list.x", "data.__class__", "data.list.²"]
)
def test_a_path_that_leads_nowhere_is_an_error_with_and_without_the_data(path: str) -> None:
    with pytest.raises(TemplateError, match="nothing at"):
        check_template("{{" + path + "}}", FACTS.data)
    with pytest.raises(TemplateError, match="nothing at"):
        render("{{" + path + "}}", FACTS, room())


def test_what_is_put_in_is_never_read_again() -> None:
    assert render("{{data.x}}{{data.x}}", with_data(x="{{job.id}}"), room()) == "{{job.id}}{{job.id}}"
    assert render("{{data.x}}attempt}}", with_data(x="{{"), room()) == "{{attempt}}"
    assert render_json({"a": "{{data.x}}"}, with_data(x=["{{job.id}}"]), room()) == {"a": ["{{job.id}}"]}


def test_a_template_alone_in_a_json_string_keeps_the_type_of_its_value() -> None:
    given = {
        "n": "{{data.count}}",
        "l": "{{data.list}}",
        "t": "{{data.count}}!",
        "a": "{{attempt}}",
        "z": "{{data.none}}",
    }
    assert render_json(given, FACTS, room()) == {"n": 3, "l": [1, {"x": "deep"}], "t": "3!", "a": 2, "z": None}


def test_a_key_cannot_hold_a_template() -> None:
    with pytest.raises(TemplateError, match="only values can"):
        check_json({"{{job.id}}": 1})


def test_a_body_nested_too_deep_is_refused() -> None:
    body: Any = "x"
    for _ in range(40):
        body = [body]
    with pytest.raises(TemplateError, match="deeper than 32"):
        check_json(body)


@examples(200)
@given(
    st.text(),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5),
)
def test_json_stays_json_whatever_is_put_in(text: str, value: Any) -> None:
    facts = with_data(text=text, value=value)
    body = {"whole": "{{data.value}}", "part": "<{{data.text}}>", "list": ["{{data.text}}"]}
    sent, kind = build_body(body, None, facts)
    assert json.loads(sent) == {"whole": value, "part": f"<{text}>", "list": [text]}
    assert kind == "application/json"
    sent, _ = build_body('{"part": "<{{data.text}}>"}', "application/json; charset=utf-8", facts)
    assert json.loads(sent) == {"part": f"<{text}>"}


@examples(200)
@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("{}data.x ", max_size=12))
def test_a_text_without_templates_stands_as_it_is(text: str) -> None:
    if "{{" in text:
        with pytest.raises(TemplateError):
            parse_template(text.replace("}", ""))
    else:
        assert render(text, FACTS, room()) == text


@pytest.mark.parametrize("text", ['{"a": {{data.count}}}', "[{{data.name}}]", "{{data.name}}", "{"])
def test_a_text_of_json_must_be_json_before_values_are_put_in(text: str) -> None:
    with pytest.raises(TemplateError, match="put them in strings"):
        check_body(text, "application/json", True, None)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/xml", "text/plain"])
def test_half_a_character_is_an_error_with_a_sentence_in_every_kind_of_text(kind: str) -> None:
    with pytest.raises(TemplateError, match="a lone surrogate"):
        build_body("v={{data.x}}", kind, with_data(x="\udc0d"))


def test_values_are_escaped_for_the_kind_of_text_they_stand_in() -> None:
    facts = with_data(x='a&b="<é>')
    assert build_body("v={{data.x}}", "application/x-www-form-urlencoded", facts)[0] == b"v=a%26b%3D%22%3C%C3%A9%3E"
    assert build_body("<a>{{data.x}}</a>", "text/xml", facts)[0].decode() == "<a>a&amp;b=&quot;&lt;é&gt;</a>"
    assert build_body("v={{data.x}}", None, facts)[0].decode() == 'v=a&b="<é>'


def test_with_templates_off_a_text_is_sent_as_it_stands() -> None:
    assert build_body("{{7*7}}", None, None)[0] == b"{{7*7}}"
    assert build_body({"a": "{{7*7}}"}, None, None)[0] == b'{"a":"{{7*7}}"}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes"])
def test_a_value_without_a_form_in_json_is_an_error_with_a_sentence(value: Any) -> None:
    with pytest.raises(TemplateError):
        dump_json(render_json({"a": "{{data.x}}"}, with_data(x=value), room()))
