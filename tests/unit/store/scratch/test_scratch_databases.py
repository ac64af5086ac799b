"""URIs of the databases of tests."""

from __future__ import annotations

import pytest

from mainspring.errors import ConfigurationError
from mainspring.store.scratch.scratch_databases import with_database


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://h:1", "mongodb://h:1/t"),
        ("mongodb://h:1/shop", "mongodb://h:1/t"),
        ("mongodb://h:1,i:2/?replicaSet=rs", "mongodb://h:1,i:2/t?replicaSet=rs"),
        ("mongodb://u:p@h/?authSource=admin", "mongodb://u:p@h/t?authSource=admin"),
        ("mongodb://u:p@h/shop", "mongodb://u:p@h/t?authSource=shop"),
        ("mongodb://u:p@h", "mongodb://u:p@h/t?authSource=admin"),
    ],
)
def test_only_the_database_of_a_uri_is_replaced(uri: str, expected: str) -> None:
    assert with_database(uri, "t") == expected


def test_a_text_that_is_no_uri_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no URI of a MongoDB server"):
        with_database("postgres://h/shop", "t")
