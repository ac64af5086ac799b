"""How a flow or a batch ended, judged by the ends of its nodes or jobs, and in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.model.jobs.job import COMPLETED

_SHOWN = 10
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """The end of one node; `state` is "deleted" where its job is gone."""

    node: str
    state: str
    error: str | None = None
    skipped: bool = False
    because: str | None = None

    @property
    def bad(self) -> bool:
        """Whether the node ended badly, by itself and not because of another one."""
        return self.state != COMPLETED and not self.skipped and self.because is None


def flow_verdict(ends: Sequence[NodeEnd], failed: int = 0, added: Sequence[tuple[str, str]] = ()) -> str | None:
    """The reason why a flow failed; None where it completed. A skipped node is no failure.

    Nodes may have added jobs: `failed` counts the jobs of the flow that did not complete, skipped ones too, and `added`
    has the first of these that are no nodes, with their errors.
    """
    bad = [end for end in ends if end.bad]
    followers = sum(1 for end in ends if end.because is not None and not end.skipped and end.state != COMPLETED)
    if not bad and not followers:
        others = failed - sum(end.state != COMPLETED for end in ends)
        return _told_of_added(others, added) if others > 0 else None
    if not bad:  # a job that a node has added, or a node that has run again since
        cause = next(end.because for end in ends if end.because is not None and not end.skipped)
        nodes = "node was" if followers == 1 else "nodes were"
        return f"{followers:,} {nodes} cancelled because the job {cause} had ended badly."
    told = "; ".join(_told(end) for end in bad[:_SHOWN])
    more = f"; and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    noun = "node" if len(bad) == 1 else "nodes"
    text = f"{len(bad):,} {noun} ended badly: {told}{more}."
    if followers:
        text += f" {followers:,} more {'was' if followers == 1 else 'were'} cancelled because of that."
    return text


def _told(end: NodeEnd) -> str:
    error = "" if not end.error else f" ({end.error[:_LONGEST]})"
    return f"{end.node!r} {'was ' if end.state in ('cancelled', 'deleted') else ''}{end.state}{error}"


def _told_of_added(count: int, errors: Sequence[tuple[str, str]]) -> str:
    first = f" The first is {errors[0][0]}: {errors[0][1][:_LONGEST]}" if errors else ""
    return f"{count:,} {'job' if count == 1 else 'jobs'} that its nodes have added ended badly.{first}"


def batch_verdict(summary: Mapping[str, Any], errors: Sequence[tuple[str, str]]) -> str:
    """The reason why a batch failed."""
    parts = []
    if summary["aborted"]:
        parts.append("The process that stored its jobs died before the last one, so that some may be missing.")
    if summary["failed"]:
        first = f" The first is {errors[0][0]}: {errors[0][1][:_LONGEST]}" if errors else ""
        parts.append(f"{summary['failed']:,} of its {summary['total']:,} jobs ended badly.{first}")
    return " ".join(parts)
