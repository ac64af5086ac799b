"""Jobs and documents that another program has written to the jobs collection."""
