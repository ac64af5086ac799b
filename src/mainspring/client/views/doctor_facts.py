"""Gathers the facts of the doctor: one bounded read after another. `scheduler.monitor.doctor` calls it."""

from __future__ import annotations

from dataclasses import replace

from mainspring.client.views.problem_facts import read_facts
from mainspring.errors import AuditKeyMissing
from mainspring.model.access.api_keys import ADMIN, EVERYTHING
from mainspring.model.doctor.facts import DoctorFacts, ServiceFacts
from mainspring.store import Store


async def read_doctor_facts(store: Store, *, embedded: bool) -> DoctorFacts:
    """The facts of all checks. While indexes are missing, the work is not read: its queries need them."""
    server = await store.doctor_server.look(embedded=embedded)
    indexes = tuple(await store.doctor_server.indexes())
    facts = DoctorFacts(
        server=server,
        indexes=indexes,
        work=None,
        schema=await store.migrations.status(),
        service=await _service(store),
        at=store.clock.now(),
    )
    if any(index.needed and not index.present for index in indexes):
        return facts
    look = await store.doctor_schedules.look()
    return replace(
        facts,
        work=await read_facts(store, EVERYTHING),
        schedules=tuple(look.silent),
        scheduled_names=tuple(look.firing),
        schedules_read=look.read,
        schedules_complete=look.complete,
    )


async def _service(store: Store) -> ServiceFacts:
    now = store.clock.now()
    keys = [key for key in await store.api_keys.find() if key.is_live(now)]
    facts = await store.doctor_schedules.service(len(keys), sum(key.role == ADMIN for key in keys))
    try:
        await store.audit.check_end()
    except AuditKeyMissing as error:
        return replace(facts, audit_key=error.key_id)
    return facts
