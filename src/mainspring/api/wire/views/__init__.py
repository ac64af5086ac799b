"""The bodies of the views: events, statistics and the overview."""
