"""Endpoints about callers and their rights: API keys, sessions, secrets, the audit log, settings."""
