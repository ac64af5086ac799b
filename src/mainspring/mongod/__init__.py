"""The embedded server: a real `mongod`, a one-node replica set on loopback, shared by all users of one folder.

Call `open_server(folder)` of `server.py` (it blocks: give it a thread of its own under asyncio), connect to
`server.uri`, and `close()` it when done. A process that has opened the folder is a *user* of it here. This package
keeps true:

- the server runs while the folder has a user, even if the user that started it has died;
- it stops cleanly about a second after the last user is gone, even if that user was killed;
- it listens on 127.0.0.1 only, on a port that stays the same from run to run;
- only a process that can read the folder, or was given `server.uri`, can connect: the server asks for a password.

`server.py` is the user's side and `guardian.py` the small process that owns mongod. Each detects the other's death by
the locks of `locks.py`. `credentials.py` has the secrets.
"""
