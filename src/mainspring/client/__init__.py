"""The user's face: Scheduler, its namespaces, and the link to the database."""
