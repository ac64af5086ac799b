"""Every log line about one job has the job's id as a field."""

from __future__ import annotations

import ast
import re

from harness.pages import ROOT

_LEVELS = ("debug", "info", "warning", "error", "exception")
_ABOUT_A_JOB = re.compile(r"\bjob %s", re.I)


def test_every_log_line_of_the_engine_and_the_store_that_names_a_job_has_its_fields() -> None:
    looked_at, without = 0, []
    for folder in ("engine", "store"):
        for module in (ROOT / "src" / "mainspring" / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(module.read_text("utf-8"))):
                if _names_a_job(call):
                    looked_at += 1
                    without += [] if _has_fields(call) else [f"{module.name}:{getattr(call, 'lineno', 0)}"]
    assert looked_at > 15
    assert without == []


def _names_a_job(call: ast.AST) -> bool:
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in _LEVELS
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "logger"
        and isinstance(call.args[0], ast.Constant)
        and bool(_ABOUT_A_JOB.search(str(call.args[0].value)))
    )


def _has_fields(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and any(keyword.arg == "extra" for keyword in call.keywords)
