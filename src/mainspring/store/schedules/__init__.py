"""Verbs on schedules: storing, deciding on and firing them, their ledgers and calendars."""
