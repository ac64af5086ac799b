"""Makes the jobs that tell of dead letters, where this worker has a handler for that."""

from __future__ import annotations

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore, Surroundings
from mainspring.model.dead_letters import Alert
from mainspring.model.draft import Draft
from mainspring.store.codec import decode_job

_HOLD = 5.0


class TellDead(Chore):
    name = "tell_dead"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._looks_until: dict[str, tuple[bool, float]] = {}

    @property
    def every(self) -> float:
        return 0.5 if self._around.handlers.alerts else 3600.0

    async def run_once(self) -> bool:
        more = False
        for alert in list(self._around.handlers.alerts.values()):
            if await self._is_mine(alert):
                made, left = await self._around.store.alerts.tell(alert, self._template(alert))
                more |= left
                for document in made:
                    self._around.events.emit("job:created", decode_job(document))
                if made:
                    self._around.look()
        return more

    def _template(self, alert: Alert) -> Draft:
        """What the jobs of a handler have in common."""
        template = Draft(alert.name, None, encrypt=self._around.secrecy.encrypt(alert.name))
        handler = self._around.handlers.own(alert.name)
        if handler is not None:
            template.queue = handler.queue or template.queue
            template.priority = handler.priority or template.priority
        return template

    async def _is_mine(self, alert: Alert) -> bool:
        """Whether this worker is the one that does it for now: all those with the handler could, and one is enough."""
        now = monotonic()
        mine, until = self._looks_until.get(alert.name, (False, now))
        if now >= until:
            mine = await self._around.store.workers.lock(f"alerts:{alert.name}", self._around.worker, _HOLD)
            self._looks_until[alert.name] = mine, now + _HOLD * (0.6 if mine else 0.3)
        return mine
