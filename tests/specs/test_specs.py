"""The protocols of leases and flows, as specified in `specs/`, hold; and each rule in them is needed."""

from __future__ import annotations

import pytest

from specs import tlc
from specs.models import HOLD, REFUTED, Model

pytestmark = [pytest.mark.slow, pytest.mark.skipif(tlc.missing() is not None, reason=tlc.missing() or "")]


@pytest.mark.parametrize("model", HOLD, ids=str)
def test_a_protocol_holds_in_all_states_of_its_model(model: Model) -> None:
    found = tlc.check(model.module, model.changes)
    assert found.violated is None, found.output
    assert found.states > 10


@pytest.mark.parametrize("model", REFUTED, ids=str)
def test_a_protocol_without_one_of_its_rules_is_refuted(model: Model) -> None:
    assert tlc.check(model.module, model.changes).violated == model.violates
