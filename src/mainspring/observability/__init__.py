"""Mainspring seen from outside: Prometheus metrics and probes, OpenTelemetry traces, Sentry.

Each part needs an extra of the package and is imported by the program that wants it; nothing else imports these modules
before an option or a setting switches them on.
"""
