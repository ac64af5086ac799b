"""The worker's part in jobs that wait: the waits of a handler, and the checks after jobs have ended."""
