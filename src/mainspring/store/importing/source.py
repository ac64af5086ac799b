"""Reading a collection of another scheduler, and finding what an import has made already.

The source is only ever read, in the order of its ids. A client of its own connects to it: it may be another server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from mainspring.errors import ConfigurationError
from mainspring.store.codec import document_id
from mainspring.store.collection import deadline
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.schema import BY_ID
from mainspring.store.tls import unusable_file

_BATCH = 500
_TIMEOUT = 30.0


class SourceCollection:
    """A collection of another scheduler, named by a URI with the database and the collection, such as
    `mongodb://host/app.agendaJobs`."""

    def __init__(self, uri: str, usual: str) -> None:
        try:
            parsed = parse_uri(uri, validate=True)
            self._client: AsyncMongoClient[Document] = AsyncMongoClient(
                uri, appname="mainspring-import", serverSelectionTimeoutMS=int(_TIMEOUT * 1000)
            )
        except OSError as error:
            raise ConfigurationError(unusable_file(uri, error)) from error
        except (PyMongoError, ValueError) as error:
            cure = f"name the collection, such as mongodb://host/DATABASE.{usual}"
            raise ConfigurationError(f"The URI of the source cannot be used ({error}); {cure}") from error
        if not parsed["database"]:
            raise ConfigurationError(f"Name the database of the source in its URI: …/DATABASE, or …/DATABASE.{usual}")
        self.name = f"{parsed['database']}.{parsed['collection'] or usual}"
        database = self._client.get_database(parsed["database"], codec_options=CODEC)
        self._collection = database[parsed["collection"] or usual]

    async def count(self) -> int:
        """About how many documents there are."""
        with deadline(_TIMEOUT):
            return await self._collection.estimated_document_count()

    async def batches(self) -> AsyncGenerator[list[Document]]:
        """All documents, in the order of their ids. Each batch is a query of its own, so that a slow import holds no
        cursor open."""
        after: Document = {}
        while True:
            with deadline(_TIMEOUT):
                batch = await self._collection.find(after, sort=[("_id", 1)], hint=BY_ID, limit=_BATCH).to_list()
            if not batch:
                return
            yield batch
            after = {"$expr": {"$gt": ["$_id", {"$literal": batch[-1]["_id"]}]}}

    async def close(self) -> None:
        await self._client.close()


class Imported:
    """The store's verbs for what an import has made already."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def jobs(self, ids: Sequence[str]) -> set[str]:
        """Those of these ids that jobs have."""
        wanted = [document_id(one) for one in ids]
        return {str(one) for one in await self._connection.jobs.find_ids({"_id": {"$in": wanted}}, hint=BY_ID)}

    async def schedules(self, ids: Sequence[str]) -> set[str]:
        """Those of these ids that schedules have."""
        return set(await self._connection.schedules.find_ids({"_id": {"$in": list(ids)}}, hint=BY_ID))
