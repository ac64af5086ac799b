"""Settings of a Scheduler, field maps, and files that only their owner can read."""
