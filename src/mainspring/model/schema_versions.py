"""The version of the stored documents: the version that this library writes, and that of a database. Pure.

`store/migrations.py` reads and raises the version of a database; `store/connection.py` refuses a database that is too
new for this library; `scheduler.monitor.doctor` and `mainspring migrate` show the status.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST, CURRENT = 1, 2
"""The version of databases that have no record of one, and the version that this library writes."""
OLDEST_READER = 2
"""The oldest version of a library that may use a database of the current version."""


@dataclass(frozen=True, slots=True)
class Change:
    """The documents that one version has changed."""

    version: int
    text: str


CHANGES = (
    Change(
        2,
        "jobs: the field held is called waiting_for, and executes is called guarantee; schedules: job.executes is "
        "called job.guarantee; the indexes held, waiting, raw and open are not needed any more",
    ),
)


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The version of a database, and what is left to do until it is the library's."""

    version: int
    minimum: int = FIRST
    """The oldest version of a library that may use the database."""
    recorded: bool = False
    """Whether the database has a record of its version; the first worker or migration writes it."""
    seen: int = 0
    """How many documents an unfinished migration has looked at."""
    total: int = 0
    """About how many documents there are to look at; 0 where nothing is pending."""
    changed: int = 0
    """How many documents it has changed."""
    walked: bool = False
    """Whether all documents were looked at."""
    earlier_workers: tuple[str, ...] = ()
    """The live workers of earlier versions: the migration ends when they have ended."""

    @property
    def pending(self) -> tuple[Change, ...]:
        """The changes that are not finished."""
        return tuple(change for change in CHANGES if change.version > self.version)

    @property
    def waits(self) -> bool:
        """Whether only the end of earlier workers is missing."""
        return bool(self.pending and self.walked and self.earlier_workers)


def refusal(minimum: object) -> str | None:
    """The sentence for a database that only newer libraries may use; None where this one may."""
    if not isinstance(minimum, int) or isinstance(minimum, bool) or minimum <= CURRENT:
        return None
    return (
        f"This database needs a newer Mainspring: its documents are for libraries of schema version {minimum} or "
        f"newer, and this one has {CURRENT}. Upgrade the package mainspring in this process."
    )
