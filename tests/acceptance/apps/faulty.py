"""Targets that cannot be used, each in its own way."""

from mainspring import ConfigurationError, Scheduler

schedular = Scheduler()


@schedular.job("nothing")
async def nothing() -> None:
    pass


empty = Scheduler()

hooked = Scheduler()


@hooked.job("something")
async def something() -> None:
    pass


@hooked.on_start
def fail() -> None:
    raise RuntimeError("the cache is not there")


hasty = Scheduler(handler=lambda ctx: None, operation_timeout=0.3)

misconfigured = Scheduler()


@misconfigured.job("anything")
async def anything() -> None:
    pass


@misconfigured.on_start
def refuse() -> None:
    raise ConfigurationError("SMTP_HOST is not set; say which mail server to use.")
