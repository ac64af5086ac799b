"""Claiming: which due jobs this worker takes, how many, and what keeps producers from storing more."""
