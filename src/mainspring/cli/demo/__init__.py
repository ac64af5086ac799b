"""The demonstration that `mainspring up` runs without an application, on its own embedded server only."""
