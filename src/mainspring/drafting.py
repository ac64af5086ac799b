"""From what a caller asks for to a checked draft: the handler's defaults, its version, limits and encryption."""

from __future__ import annotations

from typing import Any

from mainspring.config import check_name, suggestion
from mainspring.encryption import EncryptionVerbs
from mainspring.engine.limits import Limits
from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.handlers import Handler, check_data, stored_version
from mainspring.model.draft import OPTIONS, Draft, check_attempts, make_draft
from mainspring.model.job import DEFAULT_PRIORITY, DEFAULT_QUEUE
from mainspring.model.limits import Shut, Turn
from mainspring.model.versions import check_version


class DraftVerbs(EncryptionVerbs):
    """The part of the Scheduler that checks jobs before they are stored."""

    _limits: Limits

    def _plain_draft(self, name: str, data: Any) -> Draft:
        """The draft of a job without options; what most of a large bulk is."""
        handler = self._handlers.own(name) if isinstance(name, str) else None
        if handler is None:
            return self._encrypted(Draft(check_name(name, "a job's name"), data, has_options=False))
        check_data(handler, data)
        queue, priority = handler.queue or DEFAULT_QUEUE, handler.priority or DEFAULT_PRIORITY
        data_v = stored_version(handler)
        return self._gated(Draft(name, data, queue, priority, data_v=data_v, has_options=data_v is not None))

    def _gated(self, draft: Draft) -> Draft:
        """The draft with the limits in its way, as far as this process knows of any."""
        self._encrypted(draft)
        if self._limits:
            document = {"name": draft.name, "queue": draft.queue, "data": draft.data, "seq": draft.seq}
            draft.gates = [gate for gate in self._limits.gates(document) if not isinstance(gate.rule, Shut)]
            turn = next((gate.rule for gate in draft.gates if isinstance(gate.rule, Turn)), None)
            if turn is not None:
                draft.seq, draft.has_options = turn.sequence, True
        return draft

    def _draft(self, name: str, data: Any, options: dict[str, Any]) -> Draft:
        handler = self._handlers.own(name) if isinstance(name, str) else None
        version = options.get("version")
        if handler is not None:
            check_data(handler, data, None if version is None else check_version(version))
        unknown = options.keys() - OPTIONS
        if unknown:
            raise InvalidJob(unknown_option(min(unknown)))
        try:
            draft = make_draft(name, data, **options)
        except InvalidJob:
            raise
        except ConfigurationError as error:
            raise InvalidJob(str(error)) from None
        if handler is not None:
            if options.get("queue") is None:
                draft.queue = handler.queue or DEFAULT_QUEUE
            if options.get("priority") is None:
                draft.priority = handler.priority or DEFAULT_PRIORITY
            _check_attempts(draft, handler)
            if version is None:
                draft.data_v = stored_version(handler)
        return self._gated(draft)


def _check_attempts(draft: Draft, handler: Handler) -> None:
    try:
        check_attempts(draft, handler.executes)
    except ConfigurationError as error:
        raise InvalidJob(str(error)) from None


def unknown_option(option: str) -> str:
    """What is wrong with an option that jobs do not have."""
    return f"A job has no option {option!r}.{suggestion(option, sorted(OPTIONS))}"
