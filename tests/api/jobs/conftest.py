"""The database of a test, past the scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.looking import Database


@pytest.fixture
def db(side_client: AsyncMongoClient[dict[str, Any]], uri: str) -> Database:
    return side_client.get_database(uri.rpartition("/")[2].partition("?")[0])
