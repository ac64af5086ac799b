"""The HTTP service. Needs the extra `mainspring[api]`."""
