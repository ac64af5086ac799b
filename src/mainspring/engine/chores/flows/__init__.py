"""The chores about jobs that wait."""
