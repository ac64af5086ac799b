"""One evaluation of all alert rules: read the facts, take each rule's next step, and store the jobs of its messages.

The worker with the lock of the chores evaluates, and so does every HTTP service, which is there when no worker is. Any
number of evaluations may run at once, and any of them may die at any point: the compare-and-set on the rule's document
and the ids of the jobs (`store/alerts/alert_rules.py`) make each message one message.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from mainspring.engine.alerts.facts import FactsOfPass
from mainspring.errors import Unavailable
from mainspring.model.alerts.conditions import find_subjects
from mainspring.model.alerts.episode import step
from mainspring.model.alerts.rule import AlertRule
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.refusals import brief

logger = logging.getLogger("mainspring")


@dataclass(slots=True)
class Evaluated:
    """The rules after an evaluation, and the jobs that it has made."""

    rules: list[AlertRule] = field(default_factory=list)
    made: list[Document] = field(default_factory=list)


async def evaluate(store: Store) -> Evaluated:
    """Evaluate all rules once. Without rules, that is one read of an empty collection."""
    found = await store.alert_rules.find()
    outcome = Evaluated()
    facts = FactsOfPass(store)
    for rule in found:
        try:
            outcome.rules.append(await _evaluate(store, rule, facts, outcome.made))
        except Unavailable:
            raise
        except Exception as error:  # a rule that cannot be evaluated must not silence the others
            logger.error("The alert rule %s cannot be evaluated: %s", rule.id, brief(error))
    return outcome


async def _evaluate(store: Store, rule: AlertRule, facts: FactsOfPass, made: list[Document]) -> AlertRule:
    """The rule after its next step; as it was read where another process has changed it meanwhile."""
    if not rule.enabled:
        return rule
    now = store.alert_rules.now()
    found = find_subjects(rule, await facts.of(rule))
    state = step(rule.state, found, now, rule, silenced=rule.silenced(now) is not None)
    if state != rule.state:
        stepped = await store.alert_rules.advance(rule, state)
        if stepped is None:
            return rule
        rule = stepped
    if rule.state.outbox:
        sent, jobs = await store.alert_rules.send(rule)
        made += jobs
        rule = sent or rule
    return rule
