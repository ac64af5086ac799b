"""Time zones: their offsets over time, and the effect of changes of clocks on wall times. Pure."""
