"""Prometheus metrics of workers and of the service, and the probes of workers; needs the extra `metrics`."""
