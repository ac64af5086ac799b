"""Between the claim and the handler: a job's data as it is stored becomes the data that its handler takes.

The executor calls `unpack` once for each claimed job, before arguments are bound and before the document goes to a
process: first what is encrypted is opened, then older data is upgraded. Arguments and `ctx.data` are then the same.
What is stored is not changed: another attempt starts from it anew.
"""

from __future__ import annotations

from mainspring.engine.privacy import Privacy
from mainspring.engine.run.claimed_jobs import ClaimedJob


def unpack(claimed: ClaimedJob, secrecy: Privacy) -> None:
    """Show the handler its job's data in the form that it takes. Raises what ends the attempt where that fails."""
    hidden = secrecy.open(claimed)
    version = claimed.job.data_version
    if version < claimed.handler.version:
        claimed.show(claimed.handler.upgrade(claimed.shown.data, version))
        secrecy.redact(claimed, hidden)  # the new form may have values under other names
