"""The commands that look at an installation and change it. Each calls the HTTP API, and nothing else."""
