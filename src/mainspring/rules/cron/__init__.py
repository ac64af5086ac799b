"""Cron expressions in time zones: `Cron`.

The text becomes items (parse.py), and the items become days and times of day (pattern.py, days.py). The timeline that
all rules of wall times share (`mainspring.rules.timeline`) searches these and turns them into instants of a zone.
"""

from mainspring.rules.cron.cron import Cron

__all__ = ["Cron"]
