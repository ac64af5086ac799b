"""Verbs on API keys, sessions, the audit log and idempotency records."""
