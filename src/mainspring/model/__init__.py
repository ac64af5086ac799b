"""What jobs, attempts, retries and endings are. Pure: no I/O, no clock, the standard library only."""
