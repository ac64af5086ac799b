"""API keys, sessions, the audit log, and how far each key reaches. Pure."""
