"""The dashboard of Grafana, the rules of Prometheus and the reference of metrics, compared with the code."""

from __future__ import annotations

import json
import re
from typing import Any

import promql_parser
import yaml

from harness.pages import ROOT
from mainspring.observability.metrics.catalogue import ALL, OF_PROCESS, OF_WORKER, SHARED, Metric

DASHBOARD = ROOT / "deploy" / "grafana" / "mainspring.json"
RULES = ROOT / "deploy" / "prometheus" / "mainspring.rules.yml"
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"
SERIES = {series: metric for metric in ALL for series in metric.series}
_NAME = re.compile(r"\bmainspring_\w+")
_LABELS = re.compile(r"(mainspring_\w+)\{([^}]*)\}")
_INTERVALS = {"$__rate_interval": "5m", "$__range": "6h", "$queue": "mail"}


def _dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def _queries() -> list[str]:
    return [target["expr"] for panel in _dashboard()["panels"] for target in panel["targets"]]


def _filled(query: str) -> str:
    for variable, value in _INTERVALS.items():
        query = query.replace(variable, value)
    return query


def test_every_query_of_the_dashboard_and_every_rule_is_valid_promql_on_series_that_exist() -> None:
    queries = [_filled(query) for query in _queries()] + [rule["expr"] for rule in _rules()]
    assert len(queries) > 25
    for query in queries:
        promql_parser.parse(query)
        named = set(_NAME.findall(query))
        assert named and named <= SERIES.keys(), query
        for series, matchers in _LABELS.findall(query):
            asked = {one.group(1) for one in re.finditer(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)}
            assert asked <= {*SERIES[series].labels, "le"}, query


def test_the_labels_that_queries_group_by_are_labels_of_their_series() -> None:
    for query in [*_queries(), *(rule["expr"] for rule in _rules())]:
        known = {"le"} | {label for series in _NAME.findall(query) for label in SERIES[series].labels}
        asked = {label.strip() for group in re.findall(r"\bby \(([^)]*)\)", query) for label in group.split(",")}
        assert asked <= known, query


def test_the_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = _dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    assert len({panel["title"] for panel in panels}) == len(panels)
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


def test_the_variable_of_the_dashboard_reads_a_metric_that_exists() -> None:
    queries = [one["query"] for one in _dashboard()["templating"]["list"] if one["type"] == "query"]
    assert [set(_NAME.findall(query)) <= SERIES.keys() for query in queries] == [True]


def test_every_rule_has_a_name_of_its_own_a_severity_and_a_summary_with_known_labels() -> None:
    rules = _rules()
    assert len({rule["alert"] for rule in rules}) == len(rules) > 8
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) - {"instance"}
        assert labels <= {label for series in _NAME.findall(rule["expr"]) for label in SERIES[series].labels}


def _row(metric: Metric) -> tuple[str, str, str]:
    return metric.series[0].removesuffix("_bucket"), metric.kind, ", ".join(f"`{label}`" for label in metric.labels)


def test_the_reference_has_every_metric_with_its_kind_its_labels_and_its_meaning() -> None:
    text = REFERENCE.read_text()
    parts = re.split(r"^## ", text, flags=re.M)
    for title, metrics in (("Of every process", OF_PROCESS), ("Of a worker", OF_WORKER), ("Shared", SHARED)):
        (part,) = [part for part in parts if part.startswith(title)]
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*?) ?\| ([^|]+) \|$", part, re.M)
        assert [row[:3] for row in rows] == [_row(metric) for metric in metrics]
        assert [row[3] for row in rows] == [metric.help for metric in metrics]
