"""Databases that are made for a test or a measurement, and emptied or dropped after it."""
