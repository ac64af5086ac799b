"""The blocking Scheduler: the same verbs for Django, Flask, scripts and other code without an event loop.

from mainspring.sync import Scheduler

scheduler = Scheduler()

@scheduler.job("send-email")
def send_email(to: str): ...

job = scheduler.schedule("send-email", {"to": "a@b.c"})
"""

from mainspring.client.blocking import Flow, FlowBuilder, Job, Operation, Redrive, Schedule, Scheduler
from mainspring.engine.run.context import BlockingJobContext as JobContext

__all__ = ["Flow", "FlowBuilder", "Job", "JobContext", "Operation", "Redrive", "Schedule", "Scheduler"]
