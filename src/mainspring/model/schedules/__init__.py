"""Schedules, their ledgers, and which firings are due. Pure."""
