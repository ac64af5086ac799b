"""From the body of a request to the verbs of the Scheduler, and from stored jobs to answers."""
