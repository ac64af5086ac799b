"""Verbs on limits: slots and tokens of gates, wait lists, pauses and breakers."""
