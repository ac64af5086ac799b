"""Evaluates the alert rules, and makes the jobs that send their messages.

Without rules it looks rarely, so that it costs nearly nothing: a new rule takes effect within half a minute.
"""

from __future__ import annotations

from mainspring.engine.alerts.evaluation import evaluate
from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.store.codec import decode_job

EVERY, SELDOM = 10.0, 30.0


class EvaluateAlerts(Chore):
    name = "evaluate_alerts"
    exclusive = True

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._any = False

    @property
    def every(self) -> float:
        return EVERY if self._any else SELDOM

    async def run_once(self) -> bool:
        evaluated = await evaluate(self._context.store)
        self._any = bool(evaluated.rules)
        for document in evaluated.made:
            self._context.events.emit("job:created", decode_job(document))
        if evaluated.made:
            self._context.poll_all()
        return False
