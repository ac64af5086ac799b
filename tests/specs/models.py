"""The models of the specifications that are checked: those that hold, those with one rule less, and those
that `make specs` adds: larger ones, and variants of rules that the others cover.

The changes are to the constants in `specs/<module>.cfg`; `ENDS` adds a property of liveness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PROPERTIES = "properties"
"""The verdict where a property of liveness is refuted: some job waits for ever."""


@dataclass(frozen=True, slots=True)
class Model:
    """A specification with its constants."""

    module: str
    changes: Mapping[str, str] = field(default_factory=dict)
    violates: str | None = None
    """The invariant that TLC refutes, where a rule is taken away."""

    def __str__(self) -> str:
        return " ".join([self.module, *(f"{name}={value}" for name, value in self.changes.items())])


_ENDS = {"ENDS": "Ends"}
_ALL_END = {"ENDS": "AllEnd"}
_TWO_CHECKERS = {"Checkers": "{1, 2}"}
_TWO_WAITS = {"Waits": "2", "Base": "1", **_TWO_CHECKERS}
_GROWTH = {"Growth": '"live"'}
_FAIL_FAST = {"FailFast": "TRUE"}
_FAILOVER = {"Faults": '{"depose", "crash"}', "MaxFaults": "2", "Runs": "{1}"}
_UNDISTURBED = {"Sweep": "FALSE", "MaxFaults": "0", "Runs": "{1}"}
_SNAPSHOT = {"Reads": '"snapshot"'}
_ROUNDS = {"Rounds": "TRUE"}

HOLD = (
    Model("Lease"),
    Model("FanIn", {**_TWO_WAITS, "Runs": "{1}"}),
    Model("FanIn", _GROWTH),
    Model("FanIn", _FAIL_FAST),
    Model("FanIn", {**_ENDS, "Base": "1"}),
    Model("FanIn", {**_ENDS, **_UNDISTURBED}),
    Model("Failover"),
    Model("Graph", {"Singles": "1", "INVARIANTS": "NeverEarly", **_SNAPSHOT}),
    Model("Graph", _ALL_END),
    Model("Signal", _ROUNDS),
    Model("Signal", {**_ENDS, **_UNDISTURBED}),
    Model("Signal", {**_ENDS, "Signals": '{"s"}', "Steps": "1"}),
    Model("Cancel", _ALL_END),
    Model("Batch"),
)

REFUTED = (
    Model("Lease", {"Fenced": "FALSE"}, "OneEnd"),
    Model("FanIn", {"SealLast": "FALSE"}, "NeverEarly"),
    Model("FanIn", {"LiveRead": '"before"'}, "NeverEarly"),
    Model("FanIn", {"Cas": '"none"', **_TWO_CHECKERS}, "Once"),
    Model("FanIn", {"Cas": '"state"', **_TWO_WAITS}, "NeverEarly"),
    Model("FanIn", {"WaitIds": '"shared"', **_TWO_WAITS}, "Right"),
    Model("FanIn", {"Growth": '"late"'}, "NeverEarly"),
    Model("FanIn", {**_FAIL_FAST, "CancelFirst": "FALSE"}, "Told"),
    Model("FanIn", {**_ENDS, "Sweep": "FALSE", "Base": "1"}, PROPERTIES),
    Model("Failover", {"Reads": '"apart"'}, "NeverEarly"),
    Model("Failover", {"Majority": "FALSE"}, "NeverEarly"),
    Model("Graph", {"SealLast": "FALSE"}, "NeverEarly"),
    Model("Graph", {"Guarded": "FALSE"}, "NeverEarly"),
    Model("Graph", {"Retry": '"plain"'}, "NeverEarly"),
    Model("Graph", {"Singles": "1"}, "NeverEarly"),
    Model("Graph", {"Retry": '"plain"', **_SNAPSHOT}, "Settled"),
    Model("Graph", {"Retry": '"mixed"'}, "NeverEarly"),
    Model("Signal", {**_ENDS, **_UNDISTURBED, "SecondLook": "FALSE"}, PROPERTIES),
    Model("Signal", {**_ENDS, **_UNDISTURBED, "StoreFirst": "FALSE"}, PROPERTIES),
    Model("Signal", {**_ENDS, "Signals": '{"s"}', "Steps": "1", "Sweep": "FALSE"}, PROPERTIES),
    Model("Signal", {**_ENDS, "Signals": '{"s"}', "Steps": "1", "Take": '"delete"'}, PROPERTIES),
    Model("Signal", {**_ROUNDS, "Mark": "FALSE"}, "OnceTaken"),
    Model("Cancel", {**_ALL_END, "Mark": "FALSE"}, PROPERTIES),
    Model("Cancel", {**_ALL_END, "Watch": '"quiet"'}, PROPERTIES),
    Model("Batch", {"ChunkFenced": "FALSE"}, "NeverEarly"),
)

LARGE = (
    Model("FanIn"),
    Model("FanIn", _TWO_WAITS),
    Model("FanIn", _FAILOVER),
    Model("Graph", {"Retry": '"ordered"', **_SNAPSHOT}),
    Model("Signal"),
    Model("FanIn", {**_FAILOVER, "Causal": "FALSE", "INVARIANTS": "NeverEarly"}, "NeverEarly"),
    Model("FanIn", {"Majority": "FALSE", "INVARIANTS": "NeverEarly"}, "NeverEarly"),
    Model("Graph", {"LiveRead": '"before"'}, "NeverEarly"),
    Model("Graph", {"Retry": '"ordered"'}, "NeverEarly"),
    Model("Graph", {"Retry": '"touch"', **_SNAPSHOT}, "Settled"),
    Model("Lease", {"Workers": "{w1, w2, w3}", "Jobs": "{j1, j2}"}),
    Model("FanIn", {**_TWO_CHECKERS, **_GROWTH, "MaxFaults": "2"}),
    Model("FanIn", {**_TWO_CHECKERS, **_FAIL_FAST, "MaxFaults": "2"}),
    Model("FanIn", {**_TWO_WAITS, "MaxFaults": "2"}),
    Model("FanIn", {**_FAIL_FAST, "Tolerate": "1", **_TWO_CHECKERS}),
    Model("FanIn", {**_ENDS, **_TWO_CHECKERS}),
    Model("Failover", {"Kids": "{a, b, c}", "MaxFailovers": "2"}),
    Model("Graph", {"Retriers": "{1, 2}"}),
    Model("Graph", {"Shape": '"diamond"'}),
    Model("Graph", {"Retriers": "{1, 2}", "Retry": '"ordered"', **_SNAPSHOT}),
    Model("Signal", {"MaxFaults": "2"}),
    Model("Signal", {**_ROUNDS, "MaxFaults": "2"}),
    Model("Cancel", {**_ALL_END, "Width": "2", "MaxFaults": "1"}),
    Model("Batch", {"Items": "{a, b, c, d, e}"}),
)
