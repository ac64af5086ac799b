"""The entries that the service writes to the audit log."""
