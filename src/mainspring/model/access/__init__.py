"""API keys and their scopes, sessions, and the audit log. Pure."""
