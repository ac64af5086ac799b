"""RFC 5545's recurrence rules, evaluated by arithmetic: what `RRule` is made of.

The text becomes a `Pattern` (pattern.py, parse.py); with a start it says which days (days.py) and which wall times
(walls.py) recur, as sets that can be searched and counted without walking over them; the timeline (timeline.py) turns
wall times into instants of a zone.
"""
