"""Alert rules at work: the facts that they need, and the evaluation that a worker and the HTTP service share."""
