"""The filter of jobs has one list of conditions, `JobFilter`: every form of it has the same ones."""

from __future__ import annotations

from dataclasses import fields

from mainspring.api.wire.filters import JobConditions, JobFilterOut
from mainspring.model.views.search import CONDITIONS, JobFilter, Search


def test_every_form_of_the_filter_has_the_conditions_of_the_public_one() -> None:
    assert {*CONDITIONS, "data"} == JobFilter.__annotations__.keys()
    assert JobConditions.model_fields.keys() == set(CONDITIONS)
    assert JobFilterOut.model_fields.keys() == {*CONDITIONS, "data"}
    assert {field.name for field in fields(Search)} >= set(CONDITIONS)
