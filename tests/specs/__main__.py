"""`make specs`: all models, with larger constants than in the tests. Names of modules as arguments select some."""

from __future__ import annotations

import sys
import time

from specs import tlc
from specs.models import HOLD, LARGE, REFUTED


def main(modules: list[str]) -> int:
    """Check the models and print a line for each; returns how many verdicts are unexpected."""
    reason = tlc.missing()
    if reason is not None:
        print(f"The specifications cannot be checked: {reason}.")
        return 1
    failures = 0
    for model in (*HOLD, *REFUTED, *LARGE):
        if modules and model.module not in modules:
            continue
        began = time.monotonic()
        found = tlc.check(model.module, model.changes, seconds=3600, long=True)
        verdict = "holds" if found.violated is None else f"violates {found.violated}"
        print(f"{model}: {verdict}, {found.states:,} states, {time.monotonic() - began:.0f} s", flush=True)
        if found.violated != model.violates:
            failures += 1
            print(f"UNEXPECTED: it should {f'violate {model.violates}' if model.violates else 'hold'}.\n{found.output}")
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
