"""Chores on the slots and wait lists of limits."""
