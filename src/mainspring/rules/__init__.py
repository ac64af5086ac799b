"""Rules: values that define when a schedule fires. See docs/reference/rules.md for all of them."""

from mainspring.rules.any_of import AnyOf
from mainspring.rules.at import At
from mainspring.rules.documents import rule_from_document
from mainspring.rules.every import Every
from mainspring.rules.exclusion import Except
from mainspring.rules.rrule.rrule import RRule
from mainspring.rules.rule import Rule, anchored

__all__ = ["AnyOf", "At", "Every", "Except", "RRule", "Rule", "anchored", "rule_from_document"]
