"""The store's verbs for jobs that wait: spawning children, checking waits, signals, and whole trees."""
