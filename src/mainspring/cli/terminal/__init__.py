"""Output of the commands: tables, fields, times, JSON and progress."""
