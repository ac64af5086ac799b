"""How fast a compiled cron rule answers, and how long it takes to make one. No database is asked.

Each firing is the question for the next one, as an engine asks. The expressions are those that people write most, and
the rarest, in UTC and in a zone whose clocks change. The clock is the CPU's, since nothing here waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bench.ground import Ground
from bench.options import Options
from bench.report import Bar, Row
from mainspring import Cron
from mainspring.rules.cron.pattern import compile_pattern

_RULES = (
    ("*/5 * * * *", "UTC"),
    ("0 9 * * MON-FRI", "UTC"),
    ("*/30 * * * * *", "UTC"),
    ("*/5 * * * *", "Europe/Berlin"),
    ("0 9 * * MON-FRI", "Europe/Berlin"),
    ("0 0 29 2 *", "Europe/Berlin"),
)
_LONGEST = "15,45 */10 8-18 1,15W,LW NOV-FEB FRIL"
_ENOUGH = Bar("value", 50_000)
_MOST = Bar("value", 100, at_most=True)
_START = datetime(2026, 11, 16, tzinfo=UTC)
_TURN = timedelta(days=300 * 365)


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for cron rules."""
    rows = []
    for expression, zone in _RULES:
        cron = Cron(expression, zone)
        _ask(cron, options.cron_questions)  # what a zone did in these years is looked up once
        samples = [_ask(cron, options.cron_questions) for _ in range(options.repeat)]
        rows.append(Row(f"cron next(), {expression}, {zone}", "/s", samples, bar=_ENOUGH))
    return [*rows, *_making(options)]


def _ask(cron: Cron, count: int) -> float:
    """Questions a second of CPU time; after 300 years it begins again."""
    moment, end = _START, _START + _TURN
    started = time.process_time()
    for _ in range(count):
        found = cron.next(moment)
        moment = _START if found is None or found > end else found
    return count / (time.process_time() - started)


def _making(options: Options) -> list[Row]:
    document = Cron(_LONGEST, "Europe/Berlin").to_document()
    parse = compile_pattern.__wrapped__
    makers: tuple[tuple[str, Callable[[], object]], ...] = (
        ("cron, a long expression read", lambda: parse(_LONGEST, "")),
        ("cron, a known rule out of a document", lambda: Cron.from_document(document)),
    )
    return [
        Row(name, "µs", [_took(make, options.cron_questions // 20) for _ in range(options.repeat)], bar=_MOST)
        for name, make in makers
    ]


def _took(make: Callable[[], object], count: int) -> float:
    """Microseconds of CPU time for one."""
    started = time.process_time()
    for _ in range(count):
        make()
    return (time.process_time() - started) / count * 1e6
