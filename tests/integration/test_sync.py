"""The blocking face: the same verbs, from threads, scripts and forked servers."""
