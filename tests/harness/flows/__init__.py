"""Flows made by chance from a seed, the outcome that each must have, and the check of all that happened to them."""
