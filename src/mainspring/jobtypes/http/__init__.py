"""Webhook jobs: a request to a server, described in the job. Needs the extra `mainspring[http]`."""
