"""Databases for the tests of users, one to each test; `mainspring.testing` hands them out.

A database is emptied after its test and used again, since to make all indexes takes a third of a second and to empty
the collections a fiftieth. It is used again only if the indexes of Mainspring are those that the first connection has
made; any other is dropped, and so are the test's own collections. At least `_RESTING` other databases are used before
it, so that a late write of the test before harms none. All are dropped at the end of the run. The verbs block: fixtures
call them between tests.
"""

from __future__ import annotations

import re
import secrets
from collections import deque

from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from mainspring.config.settings import Settings
from mainspring.errors import ConfigurationError, Unavailable
from mainspring.store.connection import Document

_PREFIX = "mainspring_test_"
_JOBS = Settings().collection
_RESTING = 2
_PATIENCE_MS = 10_000


class ScratchDatabases:
    """The databases of one run on one server."""

    def __init__(self, uri: str) -> None:
        """The server of this URI; raises Unavailable if it does not answer."""
        self._uri = uri
        self._used: set[str] = set()
        self._rested: deque[str] = deque()
        self._as_new: Document = {}
        try:
            self._client: MongoClient[Document] = MongoClient(_with_patience(uri))
        except (PyMongoError, ValueError) as error:
            raise ConfigurationError(f"The URI of the tests' MongoDB server is wrong: {error}") from error
        try:
            self._client.admin.command("ping")
        except PyMongoError as error:
            self._client.close()
            said = re.split(r" \(configured timeouts|, Timeout: ", str(error))[0]
            raise Unavailable(f"The MongoDB server of the tests does not answer: {said}") from error

    def take(self) -> tuple[str, str]:
        """The name of an empty database, and its URI."""
        name = self._rested.popleft() if len(self._rested) > _RESTING else _PREFIX + secrets.token_hex(6)
        self._used.add(name)
        return name, with_database(self._uri, name)

    def give_back(self, name: str) -> None:
        """Empty the database of a test that is over, so that another test can use it."""
        found = self._indexes(name)
        made = {collection: indexes for collection, indexes in found.items() if len(indexes) > 1}
        self._as_new = self._as_new or made
        if not made or made != self._as_new:
            self._client.drop_database(name)
            self._used.discard(name)
            return
        for collection in found:
            self._client[name][collection].delete_many({}, hint="_id_")
        self._rested.append(name)

    def close(self) -> None:
        """Drop all databases of this run."""
        for name in self._used:
            self._client.drop_database(name)
        self._client.close()

    def _indexes(self, name: str) -> Document:
        """The collections of Mainspring in a database, each with its indexes. Those of the test are dropped first."""
        database = self._client[name]
        names = [one for one in database.list_collection_names() if not one.startswith("system.")]
        ours = [one for one in names if one == _JOBS or one.startswith(f"{_JOBS}.")]
        for one in set(names) - set(ours):
            database.drop_collection(one)
        return {one: database[one].index_information() for one in sorted(ours)}


def _with_patience(uri: str) -> str:
    """The URI with a short patience for a server that does not answer, unless it has its own."""
    if "serverselectiontimeoutms" in uri.lower():
        return uri
    head, _, options = uri.partition("?")
    slash = "" if "/" in head.partition("://")[2] else "/"
    return f"{head}{slash}?{'&'.join(filter(None, [options, f'serverSelectionTimeoutMS={_PATIENCE_MS}']))}"


def with_database(uri: str, name: str) -> str:
    """The URI with another database. Credentials that were checked against its own are still checked there."""
    try:
        parsed = parse_uri(uri, warn=False)
    except Exception as error:
        raise ConfigurationError(f"This is no URI of a MongoDB server: {error}") from None
    scheme, _, rest = uri.partition("://")
    place, _, options = rest.partition("?")
    hosts = place.partition("/")[0]
    if parsed["username"] and "authsource" not in options.lower():
        options = "&".join(filter(None, [options, f"authSource={parsed['database'] or 'admin'}"]))
    return f"{scheme}://{hosts}/{name}" + (f"?{options}" if options else "")
