"""Handlers in a process of their own: results, crashes, kills, and the context that reaches them there."""
