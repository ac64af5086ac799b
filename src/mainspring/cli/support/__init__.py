"""Modules that the commands share."""
