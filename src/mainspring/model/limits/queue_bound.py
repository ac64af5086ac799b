"""Back-pressure: how many jobs of a queue may be pending before its producers are refused or wait. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mainspring.config.checks import check_whole
from mainspring.errors import ConfigurationError

WhenFull = Literal["refuse", "wait"]
REFUSE, WAIT = "refuse", "wait"


@dataclass(frozen=True, slots=True)
class Bound:
    """At most `max_pending` jobs; a producer that would go beyond is refused, or waits until there is room."""

    max_pending: int
    when_full: str = REFUSE


def check_bound(max_pending: object, when_full: object) -> Bound | None:
    """The bound of the options `max_pending` and `when_full`; None when neither is given."""
    if when_full not in (None, REFUSE, WAIT):
        raise ConfigurationError(f'when_full must be "{REFUSE}" or "{WAIT}", not {when_full!r}.')
    if max_pending is None:
        if when_full is not None:
            raise ConfigurationError("when_full needs max_pending: how many pending jobs the queue may have.")
        return None
    return Bound(check_whole(max_pending, "max_pending", 1), str(when_full or REFUSE))
