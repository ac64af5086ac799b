"""Why is it not running? The verb that answers, from what is stored and from what this process has in its code."""

from __future__ import annotations

from mainspring.model.explanation import Explanation
from mainspring.model.job import BLOCKED, PENDING
from mainspring.model.known_limits import Declared
from mainspring.model.reasons import explain, state_gate
from mainspring.store.codec import document_id
from mainspring.verbs import Verbs


class ExplainVerbs(Verbs):
    """The part of the Scheduler that explains."""

    async def explain(self, job_id: str) -> Explanation:
        """Why a job is not running: every gate between it and its run, and the one that holds it now.

        Costs a handful of reads and changes nothing. Raises JobNotFound.
        """
        store = await self._store()
        document = await store.jobs.get(document_id(job_id))
        job = store.sealer.decode(document)
        if job.state in (PENDING, BLOCKED) or document.get("v") is None:
            standing = await store.explaining.standing(document, self._declared_for(job.name, job.queue))
            return self._secrecy.explained(explain(standing))
        now = store.explaining.now()
        gates = [state_gate(job, now, ahead=bool(document.get("ahead")))]
        return self._secrecy.explained(Explanation.of(job, now, gates))

    def _declared_for(self, name: str, queue: str) -> Declared:
        """What this process's code says of the limits of a name and a queue."""
        handler = self._handlers.own(name)
        return Declared(None if handler is None else handler.allowance, self._queue_limits.get(queue))
