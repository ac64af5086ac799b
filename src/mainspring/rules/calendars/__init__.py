"""Calendars: named sets of days, and reading them from .ics files. Pure."""
