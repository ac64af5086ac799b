"""Between the claim and the handler: a job's data as it is stored becomes the data that its handler takes.

The executor calls `unpack` once for each claimed job, before arguments are bound and before the document goes to a
process: first what is encrypted is opened, then older data is lifted. Arguments and `ctx.data` are then the same. What
is stored is not changed: another attempt starts from it anew.
"""

from __future__ import annotations

from mainspring.engine.holdings import Holding
from mainspring.engine.secrecy import Secrecy
from mainspring.model.versions import FIRST_VERSION


def unpack(holding: Holding, secrecy: Secrecy) -> None:
    """Show the handler its job's data in the form that it takes. Raises what ends the attempt where that fails."""
    secrecy.open(holding)
    if _lift(holding):
        secrecy.look_again(holding)


def _lift(holding: Holding) -> bool:
    """Data that was written for an earlier version of the handler is lifted to its version."""
    version: int = holding.document.get("data_v", FIRST_VERSION)
    if version >= holding.handler.version:
        return False
    holding.show(holding.handler.lift(holding.document.get("data") or {}, version))
    return True
