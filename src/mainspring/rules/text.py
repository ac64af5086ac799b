"""A rule as a short text, as its author would have written it: a cron expression, an RRULE, or an interval."""

from __future__ import annotations

from mainspring.durations import duration_text
from mainspring.rules.any_of import AnyOf
from mainspring.rules.at import At
from mainspring.rules.cron import Cron
from mainspring.rules.every import END, Every
from mainspring.rules.exclusion import Except
from mainspring.rules.instants import instant_text
from mainspring.rules.rrule.rrule import RRule
from mainspring.rules.rule import Rule


def rule_text(rule: Rule) -> str:
    """The rule as text, such as "0 9 * * MON-FRI", "FREQ=DAILY" or "every 5m"; empty for a rule of another kind."""
    match rule:
        case Cron():
            return rule.expression
        case RRule():
            return rule.text
        case Every():
            period = duration_text(round(rule.period.total_seconds() * 1000))
            return f"{period} after the end" if rule.after == END else f"every {period}"
        case At():
            more = f" and {len(rule.ticks) - 1:,} more" if len(rule.ticks) > 1 else ""
            return f"at {instant_text(rule.instants[0])}{more}"
        case AnyOf():
            return " or ".join(rule_text(part) for part in rule.rules)
        case Except():
            return f"{rule_text(rule.rule)} except {', '.join(rule.names)}"
    return ""


def rule_zone(rule: Rule) -> str | None:
    """The zone of a rule's wall times; of several, the first; None for a rule that counts real time."""
    return rule.zones[0] if rule.zones else None
