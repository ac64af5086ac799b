"""Secrets, encrypted values and redaction. Pure."""
