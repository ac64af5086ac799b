"""Reads behind `mainspring doctor`: the server, its indexes and its oplog, and the schedules that never fire."""
