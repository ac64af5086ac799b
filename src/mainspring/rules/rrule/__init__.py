"""The recurrence rules of RFC 5545, evaluated by arithmetic: `RRule`.

The text becomes a `Pattern` (parse.py, pattern.py). With a start it becomes days (days.py) and wall times
(wall_times.py, compile.py): sets that are searched and counted without walking over them. The timeline that all rules
of wall times share (`mainspring.rules.timeline`) turns these into instants of a zone.
"""
