"""Alert rules in the database."""
