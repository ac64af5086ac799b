"""Makes checked drafts of jobs from a caller's arguments, with the handler's defaults, version, limits, encryption."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from mainspring.client.core import Core
from mainspring.config.settings import check_name
from mainspring.engine.handler import Handler, check_data, stored_version
from mainspring.engine.handlers import Named
from mainspring.engine.limits.job_gates import Limits
from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.model.fields import Fields
from mainspring.model.jobs.declared_defaults import PLAIN, JobDefaults
from mainspring.model.jobs.draft import OPTIONS, Draft, check_attempts, make_draft
from mainspring.model.jobs.payload_versions import check_version
from mainspring.model.limits.limits import Closed, SequenceGate
from mainspring.model.privacy.encrypted_values import Encrypt, refuse_keys
from mainspring.spelling import meant_by, suggestion


@dataclass(slots=True)
class BulkOf:
    """The shared parts of a bulk's jobs of one name: the handler, if this process has it, and a draft without data."""

    handler: Handler | None
    draft: Draft


class Drafts:
    """Checks jobs before they are stored."""

    def __init__(self, core: Core, limits: Limits) -> None:
        self._core = core
        self._limits = limits

    def bulk_of(self, name: Named) -> BulkOf:
        """The shared parts of the jobs of this name without options; computed once for all of them in a bulk."""
        name = check_name(self._core.handlers.named(name), "a job's name")
        handler = self._core.handlers.own(name)
        declared = self._core.live_handlers.defaults(name) or PLAIN
        data_v = None if handler is None else stored_version(handler)
        self._core.live_handlers.warn_of(name)
        first = Draft(name, None, declared.queue, declared.priority, data_v=data_v, has_options=data_v is not None)
        return BulkOf(handler, self._encrypted(first))

    def plain(self, kind: BulkOf, data: Any) -> Draft:
        """The draft of a job without options, as most jobs of a large bulk are."""
        like = kind.draft
        data = check_data(kind.handler, data)
        draft = Draft(like.name, data, like.queue, like.priority, data_v=like.data_v, has_options=like.has_options)
        draft.encrypt = like.encrypt
        return self._gated(draft)

    def _gated(self, draft: Draft) -> Draft:
        """The draft with the gates before it, as far as this process knows them."""
        if self._limits:
            gates = self._limits.gates(draft.name, draft.queue, draft.data or {}, draft.seq)
            draft.gates = [gate for gate in gates if not isinstance(gate.rule, Closed)]
            turn = next((gate.rule for gate in draft.gates if isinstance(gate.rule, SequenceGate)), None)
            if turn is not None:
                draft.seq, draft.has_options = turn.sequence, True
        return draft

    def draft(self, name: Named, data: Any, options: Fields, later: Container[str] | None = ()) -> Draft:
        """The draft of a job, with the handler's defaults as far as this process knows them. The arguments in `later`
        get their values when the job starts; with None, its data is not known at all."""
        name = self._core.handlers.named(name)
        handler = self._core.handlers.own(name) if isinstance(name, str) else None
        version = options.get("version")
        if later is not None:
            data = check_data(handler, data, None if version is None else check_version(version), later)
        unknown = options.keys() - OPTIONS
        if unknown:
            raise InvalidJob(self.unknown_option(name, min(unknown)))
        try:
            draft = make_draft(name, data, **options)
        except InvalidJob:
            raise
        except ConfigurationError as error:
            raise InvalidJob(str(error)) from None
        declared = self._core.live_handlers.defaults(draft.name)
        if declared is not None:
            if options.get("queue") is None:
                draft.queue = declared.queue
            if options.get("priority") is None:
                draft.priority = declared.priority
            _check_attempts(draft, declared)
        if handler is not None and version is None:
            draft.data_v = stored_version(handler)
        return self._gated(self._encrypted(draft))

    async def informed(self, name: Named, data: Any, options: Fields) -> Draft:
        """The draft with the defaults that live workers have registered, if this process does not have the handler. An
        invalid job is refused before anything is read."""
        draft = self.draft(name, data, options)
        if self._core.handlers.own(draft.name) is None:
            if await self._core.live_handlers.look(await self._core.store(), draft.name):
                draft = self.draft(name, data, options)
            self._core.live_handlers.warn_of(draft.name)
        return draft

    async def of_node(self, name: str, data: Any, options: Fields, later: Container[str] | None) -> Draft:
        """The draft of a node's job, with the defaults that live workers have registered."""
        handler = self._core.handlers.own(name)
        if handler is None:
            await self._core.live_handlers.look(await self._core.store(), name)
        draft = self.draft(name, data, options, later)
        for path in () if handler is None else handler.allowance.paths:
            if later is not None and path.partition(".")[0] in later:
                raise InvalidJob(
                    f"A limit, a sequence or the fairness of {name!r} goes by {path!r}, which is not known before the "
                    "node starts; give the value itself."
                )
        self._core.live_handlers.warn_of(name)
        return draft

    def unknown_option(self, name: Named, option: str) -> str:
        """The error text for an option that jobs do not have; it may be an argument of the handler."""
        name = self._core.handlers.named(name)
        handler = self._core.handlers.own(name)
        meant = meant_by(option, [*OPTIONS, "repeat"])
        if handler is not None and option in handler.argument_names:
            hint = f" It is an argument of the handler: put it into data, as in schedule({name!r}, {{{option!r}: …}})."
        elif option == "repeat":
            hint = " A schedule is stored by itself: scheduler.schedule(…, repeat=…)."
        elif meant is None:
            hint = f" Arguments of the handler go into data, as in schedule({name!r}, {{{option!r}: …}})."
        else:
            hint = suggestion(option, [meant])
        return f"A job has no option {option!r}.{hint}"

    def _encrypted(self, draft: Draft) -> Draft:
        """The draft with the choice of values to encrypt."""
        own = draft.encrypt if isinstance(draft.encrypt, Encrypt) else None
        draft.encrypt = encrypt = self._core.privacy.encrypt(draft.name, own)
        if encrypt is not None:
            try:
                self._check_keys(draft.name)
                refuse_keys(encrypt, self._compared(draft.name, draft.queue), f"A limit of {draft.name!r} or its queue")
            except ConfigurationError as error:
                raise InvalidJob(str(error)) from None
        return draft

    def _check_keys(self, name: str) -> None:
        """Refuse a job that a handler in another process wants encrypted, if this process has no key."""
        declared = self._core.live_handlers.defaults(name)
        if declared is None or declared.encrypt is None or self._core.handlers.own(name) is not None:
            return
        try:
            _ = self._core.privacy.cipher.ring.current
        except ConfigurationError as error:
            raise ConfigurationError(f"The handler of {name!r} has its data encrypted. {error}") from None

    def _compared(self, name: str, queue: str) -> list[str]:
        """The paths in the data whose values the limits of a name and a queue compare."""
        handler, limited = self._core.handlers.own(name), self._core.registry.queue_limits.get(queue)
        return [*(handler.allowance.paths if handler else ()), *(limited.paths if limited else ())]


def _check_attempts(draft: Draft, declared: JobDefaults) -> None:
    try:
        check_attempts(draft, declared.guarantee)
    except ConfigurationError as error:
        raise InvalidJob(str(error)) from None
