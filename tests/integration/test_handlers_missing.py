"""Jobs nobody here has a handler for: they wait, say why, and run where one is registered."""
