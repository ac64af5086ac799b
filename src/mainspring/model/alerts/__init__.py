"""Alert rules: when an operator is told of a problem, by which way, and what has been told. Pure."""
