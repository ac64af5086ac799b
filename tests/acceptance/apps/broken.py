"""A module with a mistake in it."""

raise KeyError("SECRET")
