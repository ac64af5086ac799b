"""Jobs, drafts, outcomes of attempts, retries and retention. Pure."""
