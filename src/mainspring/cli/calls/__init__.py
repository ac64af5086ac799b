"""How a command calls the HTTP API: over the network, or in its own process on a database."""
