"""Turns the stored data of a claimed job into the data that its handler takes.

The executor calls `unpack` once for each claimed job, before arguments are bound and before the document goes to a
process: it decrypts encrypted values first, then fills in results of predecessors, then upgrades older data. Arguments
and `ctx.data` are then the same.
The stored data is not changed: another attempt starts from it anew.
"""

from __future__ import annotations

from mainspring.engine.flows.predecessors import Predecessors
from mainspring.engine.privacy import Privacy
from mainspring.engine.run.claimed_jobs import ClaimedJob


def unpack(claimed: ClaimedJob, secrecy: Privacy, predecessors: Predecessors | None = None) -> None:
    """Show the handler its job's data in the form that it takes. An error raised here ends the attempt."""
    hidden = secrecy.open(claimed)
    if predecessors is not None:
        claimed.show(predecessors.fill(claimed.shown.data))
        claimed.show_predecessors(predecessors.by_node)
        hidden = secrecy.redact(claimed, hidden)
    version = claimed.job.data_version
    if version < claimed.handler.version:
        claimed.show(claimed.handler.upgrade(claimed.shown.data, version))
        secrecy.redact(claimed, hidden)  # the new form may have values under other names
