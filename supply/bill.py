"""The bill of materials, in CycloneDX's JSON: Mainspring with all extras, as it is installed here.

Each package is named with its version, its licence and what it needs; hashes are those of constraints.txt, one for each
file that the version is published as. No address of a registry is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distribution
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from supply.pins import Pin

PRODUCT = "mainspring"
_CLASSIFIER = "License :: OSI Approved :: "
Extras = frozenset[str]


def requirements_of(found: Distribution, extras: Extras) -> Iterator[Requirement]:
    """What a package needs on this machine, with these extras."""
    for text in found.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield requirement


def closure(name: str, extras: Extras) -> dict[str, set[str]]:
    """A package and all that it needs, directly or not, each with what it needs itself."""
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, Extras]] = set()
    waiting = [(canonicalize_name(name), extras)]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        own = needs.setdefault(current[0], set())
        for requirement in requirements_of(distribution(current[0]), current[1]):
            needed = canonicalize_name(requirement.name)
            waiting.append((needed, frozenset(requirement.extras)))
            own |= {needed} - {current[0]}
    return needs


def make_bill(pins: Mapping[str, Pin]) -> Bom:
    """The bill of the installed product. A package whose version is not the pinned one is refused."""
    needs = closure(PRODUCT, frozenset({"all"}))
    required = closure(PRODUCT, frozenset())
    components = {name: _component(name, pins, required) for name in needs if name != PRODUCT}
    bill = Bom(components=components.values())
    bill.metadata.component = product = _component(PRODUCT, {}, required)
    for name, wanted in needs.items():
        owner = product if name == PRODUCT else components[name]
        bill.register_dependency(owner, [components[one] for one in sorted(wanted)])
    return bill


def to_json(bill: Bom) -> str:
    return JsonV1Dot6(bill).output_as_string(indent=2) + "\n"


def _component(name: str, pins: Mapping[str, Pin], required: Mapping[str, Any]) -> Component:
    found = distribution(name)
    url = PackageURL("pypi", None, name, found.version)
    own = name == PRODUCT
    if not own and pins[name].version != found.version:
        raise SystemExit(f"{name} {found.version} is installed, and {pins[name].version} is pinned; run make setup.")
    hashes = () if own else pins[name].hashes
    return Component(
        type=ComponentType.APPLICATION if own else ComponentType.LIBRARY,
        name=name,
        version=found.version,
        bom_ref=str(url),
        purl=url,
        scope=ComponentScope.REQUIRED if name in required else ComponentScope.OPTIONAL,
        description=found.metadata["Summary"],
        licenses=[LicenseFactory().make_from_string(licence_of(found))],
        external_references=[_files(url, hashes)] if hashes else [],
    )


def _files(url: PackageURL, hashes: tuple[str, ...]) -> ExternalReference:
    """The files that a version is published as."""
    digests = [HashType(alg=HashAlgorithm.SHA_256, content=one) for one in hashes]
    return ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(url)), hashes=digests)


def licence_of(found: Distribution) -> str:
    """The licence that a package states: as an expression, in its field for it, or by a classifier."""
    about: Any = found.metadata
    classified = [one.removeprefix(_CLASSIFIER) for one in about.get_all("Classifier") or () if _CLASSIFIER in one]
    field = (about.get("License") or "").strip()
    stated = [about.get("License-Expression"), field if field and "\n" not in field else None, *classified]
    return next((one for one in stated if one), "NOASSERTION")
