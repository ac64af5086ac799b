"""Reads behind lists, searches, explanations, statistics, health and the change stream."""
