"""Chores on what this worker knows, counts and keeps."""
