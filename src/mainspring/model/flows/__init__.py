"""Jobs that wait for jobs, signals and times: their ids, their waits, and when a wait is over."""
