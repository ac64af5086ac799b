"""Dead letters: selections of them, and groups with the same cause. Pure."""
