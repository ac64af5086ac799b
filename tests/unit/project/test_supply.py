"""What the product is built from: every dependency is pinned with hashes, and the bill of materials names them all."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from importlib.metadata import distribution
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from supply.bill import closure, make_bill, to_json
from supply.pins import FILE, read_pins

from harness.pages import ROOT

PINS = read_pins(FILE.read_text())


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(make_bill(PINS)))
    return found


def test_every_pinned_version_has_hashes_and_no_address_of_a_registry() -> None:
    text = FILE.read_text()
    assert [name for name, pin in PINS.items() if not pin.hashes] == []
    assert "://" not in text and "index-url" not in text


def test_all_that_is_installed_or_builds_the_package_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [one for group in project["dependency-groups"].values() for one in group if isinstance(one, str)]
    extras = [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    stated = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extras, *groups]
    names = {canonicalize_name(Requirement(one).name) for one in stated} - {"mainspring"}
    assert names <= PINS.keys()
    assert closure("mainspring", frozenset({"all"})).keys() - {"mainspring"} <= PINS.keys()


def test_setup_installs_nothing_without_a_hash() -> None:
    texts = [path.read_text() for path in (ROOT / "Makefile", *(ROOT / ".ci").iterdir())]
    installs = re.findall(r"\b(?:pip[\d.]*|pipx|uv) (?:install|add|sync)\b.*", "\n".join(texts))
    assert len(installs) == 2
    assert "--require-hashes --requirement constraints.txt" in installs[0]
    assert "--no-deps --no-build-isolation --no-index" in installs[1]


def test_the_bill_of_materials_is_valid(bill: dict[str, Any]) -> None:
    schemas = {path.name: json.loads(path.read_text()) for path in _schemas().iterdir() if path.name.endswith(".json")}
    parts = [(f"http://cyclonedx.org/schema/{name}", schema) for name, schema in schemas.items()]
    schema = schemas["bom-1.6.SNAPSHOT.schema.json"]
    jsonschema_rs.validator_for(schema, registry=jsonschema_rs.Registry(parts)).validate(bill)


def _schemas() -> Any:
    return files("cyclonedx.schema") / "_res"


def test_the_bill_of_materials_is_complete(bill: dict[str, Any]) -> None:
    components = {one["name"]: one for one in bill["components"]}
    assert components.keys() == closure("mainspring", frozenset({"all"})).keys() - {"mainspring"}
    for name, one in components.items():
        hashes = [digest["content"] for part in one["externalReferences"] for digest in part["hashes"]]
        assert (one["version"], sorted(hashes)) == (PINS[name].version, sorted(PINS[name].hashes))
        assert one["licenses"] and "NOASSERTION" not in str(one["licenses"]), name
        assert one["purl"] == f"pkg:pypi/{name}@{one['version']}"
    assert bill["metadata"]["component"]["name"] == "mainspring"
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert components["pymongo"]["bom-ref"] in needs[bill["metadata"]["component"]["bom-ref"]]
    for name, one in components.items():
        wanted = {components[other]["bom-ref"] for other in _needed_by(name)}
        assert wanted <= set(needs[one["bom-ref"]]), name


def _needed_by(name: str) -> set[str]:
    """What a package needs here, without any of its extras, by its own metadata."""
    stated = [Requirement(text) for text in distribution(name).requires or ()]
    here = [one for one in stated if one.marker is None or one.marker.evaluate({"extra": ""})]
    return {str(canonicalize_name(one.name)) for one in here} - {name}


def test_the_bill_of_materials_tells_what_is_needed_without_extras(bill: dict[str, Any]) -> None:
    scopes = {one["name"]: one["scope"] for one in bill["components"]}
    assert {scopes[name] for name in ("pymongo", "dnspython", "pydantic")} == {"required"}
    assert {scopes[name] for name in ("fastapi", "aiohttp", "typer", "cryptography")} == {"optional"}


def test_no_bill_of_materials_is_made_of_versions_that_are_not_the_pinned_ones() -> None:
    pins = {**PINS, "dnspython": replace(PINS["dnspython"], version="0.1")}
    with pytest.raises(SystemExit, match=r"dnspython \S+ is installed, and 0\.1 is pinned"):
        make_bill(pins)
