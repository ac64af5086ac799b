"""Writes the reference of the HTTP API, docs/reference/api.md, and the OpenAPI document itself, for the dashboard's
types: `python -m mainspring.api.generate_reference PAGE DOCUMENT`. A test compares both with the code."""

from __future__ import annotations

import copy
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mainspring.api.app import make_app
from mainspring.api.settings import service_settings
from mainspring.api.specification import specification
from mainspring.client.scheduler import Scheduler

Spec = Mapping[str, Any]
_HEAD = """# The HTTP API

Made from the code by `python -m mainspring.api.generate_reference`; `/docs` on a running service shows the same
interactively, and `/openapi.json` is for programs. Bodies are JSON. Durations are text with their unit ("5m", "1h30m",
"250ms"); a number of milliseconds has `Ms` in its name, but for `every`, `retryDelay`, `duration` and `pollInterval`,
which are named as in other services. Instants end in Z. Answers are `{"success": true, "data": …}`, with `next` if
there is another page. Errors are [problem details](https://www.rfc-editor.org/rfc/rfc9457) that name the field and the
cure. A `*` marks a required field.

A job has the same fields on every path, and so has a schedule. `/api/jobs` and `/api/jobs/{id}` add older names of the
same facts, such as `_id`, `jobId`, `nextRunAt` and `endpoint`; [the
guide](../howto/http-api.md#the-fields-of-jobs-and-schedules) has them in a table. `/api/v1` has the shape of an older
service.
"""


def render(spec: Spec) -> str:
    """Render the page."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            groups[tag].append("\n".join(_operation(spec, method, path, operation)))
    parts = [_HEAD]
    for tag in sorted(groups):
        parts.append(f"## {tag[:1].upper()}{tag[1:]}\n")
        parts += groups[tag]
    return "\n".join(parts).rstrip() + "\n"


def _operation(spec: Spec, method: str, path: str, operation: Spec) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    for text in (operation.get("summary"), operation.get("description")):
        if text:
            yield f"{_sentence(text)}\n"
    parameters = [_resolve(spec, one) for one in operation.get("parameters", ())]
    if parameters:
        yield "| parameter | in | type | meaning |\n|---|---|---|---|"
        for one in parameters:
            star = "*" if one.get("required") else ""
            kind = _type(spec, one.get("schema", {}))
            yield f"| `{one['name']}`{star} | {one['in']} | {kind} | {_cell(one.get('description', ''))} |"
        yield ""
    yield from _body(spec, operation)
    codes = [code for code in operation.get("responses", {}) if code.startswith("2")]
    if codes:
        yield f"Answers with {' or '.join(codes)}.\n"


def _body(spec: Spec, operation: Spec) -> Iterator[str]:
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        schema = _resolve(spec, media.get("schema", {}))
        fields = schema.get("properties", {})
        if fields:
            yield "| field | type | meaning |\n|---|---|---|"
            for name, field in fields.items():
                star = "*" if name in schema.get("required", ()) else ""
                yield f"| `{name}`{star} | {_type(spec, field)} | {_cell(field.get('description', ''))} |"
            yield ""
        for example in schema.get("examples", ())[:1]:
            yield f"```json\n{json.dumps(example, indent=2)}\n```\n"
        if kind != "application/json":
            yield f"The body is `{kind}`.\n"


def _resolve(spec: Spec, schema: Spec) -> Spec:
    while "$ref" in schema:
        found: Any = spec
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema


def _type(spec: Spec, schema: Spec) -> str:
    """The type of a value, in a word or two."""
    if "enum" in schema or "const" in schema:
        return " \\| ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        kinds = dict.fromkeys(_type(spec, one) for one in schema["anyOf"] if one.get("type") != "null")
        return " \\| ".join(kinds)
    if "$ref" in schema:
        return _type(spec, _resolve(spec, schema)) if "enum" in _resolve(spec, schema) else "object"
    if schema.get("type") == "array":
        return f"list of {_type(spec, schema.get('items', {}))}"
    kind = str(schema.get("format") or schema.get("type") or "any")
    return {"date-time": "instant", "string": "text", "integer": "whole number"}.get(kind, kind)


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _sentence(text).replace("|", "\\|")


@cache
def document() -> Spec:
    """The OpenAPI document as the code has it now, made once: it takes most of a second."""
    return specification(make_app(Scheduler("embedded:.mainspring"), service_settings()))


def document_text() -> str:
    """The OpenAPI document as a file, from which the dashboard's types are made. It leaves out the answers to refused
    requests, which are all of the one type `Problem`."""
    spec = copy.deepcopy(document())
    for methods in spec["paths"].values():
        for operation in methods.values():
            operation["responses"] = {code: one for code, one in operation["responses"].items() if code[0] == "2"}
    return json.dumps(spec, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def page() -> str:
    """The reference as the code has it now."""
    return render(document())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    Path(sys.argv[2]).write_text(document_text(), encoding="utf-8")
