"""The middleware around every request: connections, authentication, rate limits, bounds and headers."""
