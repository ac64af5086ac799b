"""The public interface: Scheduler, its namespaces, and the link to the database."""
