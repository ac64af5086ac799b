"""Webhooks and mail: the verbs of the Scheduler, the settings, and the handlers of these jobs."""
