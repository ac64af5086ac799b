"""The operations server for AI clients (Model Context Protocol): `mainspring mcp` starts it.

Every tool is one operation of the HTTP API, called with the caller's API key, so that roles, scopes, limits and the
audit log apply as to any other caller. There is no other way to the database from here.
"""
