"""The words of an outage."""

from __future__ import annotations

import pytest
from pymongo.errors import ServerSelectionTimeoutError

from mainspring import Unavailable
from mainspring.store.collection import deadline


def test_a_replica_set_without_a_primary_is_named_with_its_cures() -> None:
    cures = r"a:1\)\. The replica set has no primary: .* never initiated \(rs\.initiate"
    with pytest.raises(Unavailable, match=cures), deadline(1):
        raise ServerSelectionTimeoutError('No replica set members match selector "Primary()" (a:1), Timeout: 10s')
