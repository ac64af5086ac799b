"""Dead letters: which are meant, and which share a cause. Pure."""
