"""Endpoints that look at many things: search, export, problems, statistics and events."""
