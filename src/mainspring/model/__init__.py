"""Jobs, attempts, limits, schedules and access as values. Pure: no I/O, no clock, the standard library only."""
