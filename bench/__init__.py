"""Measurements of Mainspring beside the raw MongoDB floor, taken in the same run. `python -m bench` runs them all."""
