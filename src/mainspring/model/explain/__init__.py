"""Explanations of why a job does not run: the facts, the reasons and the texts. Pure."""
