"""What is kept and for how long: finished jobs, failed ones, and deduplication keys."""
