"""Limits, rates, pauses and breakers as one worker enforces them."""
