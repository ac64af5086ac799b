"""The children of one wait: where they belong in the flow, and their ids. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.model.flows import ids


@dataclass(frozen=True, slots=True)
class Family:
    """The jobs that one `ctx.call` or `ctx.map` makes."""

    parent: str
    name: str
    flow: str
    """The id of the flow's root."""
    node: str
    round: int = ids.FIRST_ROUND
    keyed: bool = False
    single: bool = False
    """Whether it is a call: one child, whose id is the prefix itself."""
    holds: tuple[str, ...] = ()
    """Of jobs that a member adds to the wait that it belongs to itself: that wait."""

    @property
    def wait(self) -> str:
        return ids.wait_id(self.parent, self.name, self.round)

    @property
    def before(self) -> list[str]:
        """The waits that the children hold back."""
        return list(self.holds) or [self.wait]

    @property
    def prefix(self) -> str:
        if self.holds:
            return ids.grown_prefix(self.parent, self.round)
        return ids.child_prefix(self.parent, self.name, self.round)

    @property
    def range(self) -> dict[str, str]:
        """The condition for the ids of a map's children. Jobs below these children lie in between: their ids are
        longer."""
        low, high = (f"{self.prefix}.k", f"{self.prefix}.l") if self.keyed else (f"{self.prefix}.", f"{self.prefix}/")
        length = len(self.child_id(0, bytes(ids.KEY_SIZE) if self.keyed else None))
        return {"$gte": low, "$lt": high, "$regex": f"^(?s:.){{{length}}}$"}

    def has(self, job_id: str) -> bool:
        """Whether this is the id of a child of the map."""
        length = len(self.child_id(0, bytes(ids.KEY_SIZE) if self.keyed else None))
        return job_id.startswith(f"{self.prefix}.") and len(job_id) == length

    def child_id(self, index: int, digest: bytes | None = None) -> str:
        """The id of a child by its place, or by the digest of its key."""
        if self.single:
            return self.prefix
        return ids.indexed_id(self.prefix, index) if digest is None else ids.keyed_id(self.prefix, digest)
