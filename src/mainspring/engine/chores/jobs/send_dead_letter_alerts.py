"""Makes the jobs that report dead letters, if this worker has an alert handler."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.engine.service import LockHolder
from mainspring.model.dead_letters.dead_letters import Alert
from mainspring.model.jobs.draft import Draft
from mainspring.store.codec import decode_job

_HOLD = 5.0


class SendDeadLetterAlerts(Chore):
    name = "send_dead_letter_alerts"

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._locks: dict[str, LockHolder] = {}

    @property
    def every(self) -> float:
        return 0.5 if self._context.handlers.alerts else 3600.0

    async def run_once(self) -> bool:
        more, errors = False, []
        for alert in list(self._context.handlers.alerts.values()):
            try:
                more |= await self._is_mine(alert) and await self._tell(alert)
            except Exception as error:  # an alert that fails must not stop the others
                errors.append(error)
        if errors:
            raise errors[0]
        return more

    async def _tell(self, alert: Alert) -> bool:
        """Make the jobs that are due for a handler; return whether more are left."""
        made, left = await self._context.store.alerts.tell(alert, self._template(alert))
        for document in made:
            self._context.events.emit("job:created", decode_job(document))
        if made:
            self._context.poll_all()
        return left

    def _template(self, alert: Alert) -> Draft:
        """The draft with the fields that all jobs of an alert handler share."""
        template = Draft(alert.name, None, encrypt=self._context.secrecy.encrypt(alert.name))
        handler = self._context.handlers.own(alert.name)
        if handler is not None:
            template.queue, template.priority = handler.defaults.queue, handler.defaults.priority
        return template

    async def _is_mine(self, alert: Alert) -> bool:
        """Whether this worker has the lock of an alert: all workers with the handler could send it, one is enough."""
        lock = self._locks.get(alert.name)
        if lock is None:
            lock = LockHolder(self._context.store, f"alerts:{alert.name}", self._context.worker, _HOLD)
            self._locks[alert.name] = lock
        return await lock.is_mine()
