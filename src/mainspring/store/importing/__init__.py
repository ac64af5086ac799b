"""Reading the collections of other schedulers, and what an import has made already."""
