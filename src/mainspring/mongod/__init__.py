"""The embedded server: a real `mongod`, a one-node replica set on loopback, shared by all who use one folder.

Call `open_server(folder)` (it blocks: give it a thread of its own under asyncio), connect to `server.uri`, and
`close()` it when done. What this package keeps true:

- the server runs while anybody uses the folder, whoever started it and whoever died since;
- it stops cleanly about a second after the last user is gone, however that user went;
- it listens on 127.0.0.1 only, on a port that stays the same from run to run.

`server.py` is the user's side, `guardian.py` the small process that owns mongod, and `locks.py` how they know of
each other's death. There is no password: whoever can reach loopback on this machine can read the data.
"""

from mainspring.mongod.server import EmbeddedServer, open_server

__all__ = ["EmbeddedServer", "open_server"]
