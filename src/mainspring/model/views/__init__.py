"""Lists, counts, health and changes as users see them. Pure."""
