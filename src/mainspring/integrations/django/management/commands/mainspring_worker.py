"""`manage.py mainspring_worker`: run the tasks of a backend in this process until SIGTERM or SIGINT."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from mainspring.errors import MainspringError
from mainspring.integrations.django.discovery import open_backend
from mainspring.model.fields import Fields
from mainspring.sync import Scheduler


class Command(BaseCommand):
    """Runs tasks. `mainspring worker mainspring.integrations.django.worker:scheduler` does so in several processes."""

    help = "Run the tasks of a backend of Mainspring until SIGTERM or SIGINT."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="the alias of the backend in TASKS")
        parser.add_argument("--queue-name", action="append", help="a queue to serve, all by default; may be repeated")
        parser.add_argument("--concurrency", type=int, help="how many tasks run at once")
        parser.add_argument("--check", action="store_true", help="list the tasks, and do not run any")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            scheduler = self._open(options)
            names = scheduler.workers.handler_names or []
            self.stdout.write(f"{len(names)} tasks: {', '.join(sorted(names))}")
            if not options["check"]:
                scheduler.run()
        except MainspringError as error:
            raise CommandError(str(error)) from error

    def _open(self, options: Fields) -> Scheduler:
        scheduler: Scheduler = open_backend(options["backend"]).worker()
        given = {"queues": options["queue_name"], "concurrency": options["concurrency"]}
        changes = {name: value for name, value in given.items() if value is not None}
        if changes:
            scheduler.configure(**changes)
        return scheduler
