"""Chores on a worker's caches, counts and stored records."""
