"""Starting flows: the builder of a graph, its start, and batches."""
