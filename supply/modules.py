"""The generated parts of the documentation about the code: every module with its purpose, and the diagram of packages.

`python -m supply.modules` writes docs/reference/modules.md and the diagram in ARCHITECTURE.md; `make docs` calls it. A
test compares both with the code. Everything is read from the source text, nothing is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mainspring"
PAGE = ROOT / "docs" / "reference" / "modules.md"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
_HEAD = """# The modules

Every module with the first sentence of its docstring, by folder; made from the code by `make docs`.
[ARCHITECTURE.md](../../ARCHITECTURE.md) explains how they work together.
"""
_BLOCK = re.compile(r"(?<=<!-- packages -->\n).*?(?=<!-- end of packages -->)", re.S)


def module_page() -> str:
    """The page of all modules."""
    folders = sorted({module.parent for module in SOURCE.rglob("*.py")})
    return "\n".join([_HEAD, *(_section(folder) for folder in folders)])


def _section(folder: Path) -> str:
    name = "/".join(("mainspring", *folder.relative_to(SOURCE).parts))
    rows = [f"| `{module.name}` | {_purpose(module)} |" for module in sorted(folder.glob("*.py")) if _is_listed(module)]
    table = ["", "| module | purpose |", "|---|---|", *rows] if rows else []
    return "\n".join([f"## {name}/", "", _purpose(folder / "__init__.py"), *table, ""])


def _is_listed(module: Path) -> bool:
    return module.name != "__init__.py"


def _purpose(module: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph)[0].replace("|", "\\|")


def with_diagram(architecture: str) -> str:
    """The text of ARCHITECTURE.md with the diagram of today."""
    return _BLOCK.sub(lambda _: diagram(), architecture)


def diagram() -> str:
    """The packages and the imports between them. An arrow is left out where other arrows lead to the same package."""
    imports = _imports()
    arrows = [
        f"    {package} --> {imported}"
        for package in sorted(imports)
        for imported in sorted(imports[package])
        if not any(imported in _reached(other, imports) for other in imports[package] - {imported})
    ]
    return "\n".join(["```mermaid", "flowchart TD", *arrows, "```", ""])


def _imports() -> dict[str, set[str]]:
    """Which packages, and modules at the root, each of them imports."""
    found: dict[str, set[str]] = {}
    for module in SOURCE.rglob("*.py"):
        package = _package(module.relative_to(SOURCE).parts)
        if package is not None:
            others = {_package(tuple(name.split("."))) for name in _imported(module)}
            found.setdefault(package, set()).update(other for other in others - {package} if other is not None)
    return found


def _package(parts: tuple[str, ...]) -> str | None:
    """The package of a module by its path below mainspring; None for the two entry points at the root."""
    name = parts[0].removesuffix(".py")
    return None if name.startswith("__") else name


def _imported(module: Path) -> Iterator[str]:
    """The modules of Mainspring that a module imports, by their names below mainspring."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "mainspring":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mainspring."):
            yield node.module.removeprefix("mainspring.")


def _reached(package: str, imports: dict[str, set[str]]) -> set[str]:
    """The packages that a package imports, directly or not."""
    reached: set[str] = set()
    waiting = [package]
    while waiting:
        new = imports.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


if __name__ == "__main__":
    PAGE.write_text(module_page(), "utf-8")
    ARCHITECTURE.write_text(with_diagram(ARCHITECTURE.read_text("utf-8")), "utf-8")
