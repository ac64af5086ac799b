"""Claiming: which due jobs this worker takes, and how many; and back-pressure on the processes that schedule jobs."""
