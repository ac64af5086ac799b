"""Kinds of jobs that need no handler of the user's own: what they ask for is in the job."""
