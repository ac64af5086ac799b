"""Chores on jobs."""
