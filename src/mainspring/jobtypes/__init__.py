"""Kinds of jobs that need no handler of the user's own: the job's data describes the work."""
