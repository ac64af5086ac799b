"""The verb that explains why a job is not running, from stored documents and from the code of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.client.core import Core
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.job import BLOCKED, PENDING
from mainspring.store.codec import document_id

if TYPE_CHECKING:
    from mainspring.model.explain.applicable_limits import Declared
    from mainspring.model.explain.explanation import Explanation


class Explainer:
    """Explains why a job is not running."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def explain(self, job_id: str, *, scope: Scope = EVERYTHING) -> Explanation:
        """Explain why a job is not running: every gate between the job and its run, and the one where it waits now.

        This costs a handful of reads and changes nothing. Raise JobNotFound if there is no such job within the `scope`.
        For workers and jobs outside the `scope`, such as those that use slots, the explanation gives only numbers.
        """
        # Few programs ask, and the rules of all gates take a while to import.
        from mainspring.model.access.reach import facts_within, job_within
        from mainspring.model.explain.explanation import Explanation
        from mainspring.model.explain.reasons import explain, state_gate

        store = await self._core.store()
        document = await store.jobs.get(document_id(job_id), scope)
        job = job_within(scope, store.cipher.decode(document))
        if job.state in (PENDING, BLOCKED) or document.get("v") is None:
            standing = await store.explaining.standing(document, self._declared_for(job.name, job.queue), scope)
            return self._core.privacy.explained(explain(facts_within(scope, standing)))
        now = store.explaining.now()
        gates = [state_gate(job, now, ahead=bool(document.get("ahead")))]
        return self._core.privacy.explained(Explanation.of(job, now, gates))

    def _declared_for(self, name: str, queue: str) -> Declared:
        """The limits that the code of this process declares for a name and a queue."""
        from mainspring.model.explain.applicable_limits import Declared

        handler = self._core.handlers.own(name)
        return Declared(None if handler is None else handler.allowance, self._core.registry.queue_limits.get(queue))
