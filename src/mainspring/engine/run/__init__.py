"""Running: a claimed job from its slot to its stored end."""
