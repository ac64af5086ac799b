"""Verbs on dead letters: listing, redriving, alerting."""
