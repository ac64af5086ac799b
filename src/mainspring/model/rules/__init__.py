"""Rules: values that say when something fires. See docs/reference/rules.md for all of them."""

from mainspring.cron.combining import combine_by
from mainspring.model.rules.any_of import AnyOf
from mainspring.model.rules.at import At
from mainspring.model.rules.documents import rule_from_document
from mainspring.model.rules.every import Every
from mainspring.model.rules.exclusion import Except
from mainspring.model.rules.rrule import RRule
from mainspring.model.rules.rule import Rule, anchored

combine_by(AnyOf, Except)

__all__ = ["AnyOf", "At", "Every", "Except", "RRule", "Rule", "anchored", "rule_from_document"]
