"""The worker processes of `mainspring worker`: the supervisor, its children, and the channel between them."""
