"""Encryption: keyrings, the cipher, stored secrets, and encrypting again with a new key."""
