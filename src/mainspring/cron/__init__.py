"""Cron expressions in time zones: `Cron`. Pure: no I/O but the zones' own files, no clock, the standard library only.

Text becomes items (`parse`), items become masks (`pattern`, `days`), masks are searched for wall times (`search`,
`count`), and a zone's spans turn these into instants (`zone`, `spans`, `timeline`).
"""

from mainspring.cron.cron import Cron

__all__ = ["Cron"]
