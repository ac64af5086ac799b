"""Limits, rates, pauses and breakers. Pure."""
