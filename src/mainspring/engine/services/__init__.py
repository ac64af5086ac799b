"""The long-lived loops of a worker beside claiming and running."""
