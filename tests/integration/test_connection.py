"""Reaching the database: URIs, clients handed in, servers that are down, too old or of another shape."""
