"""An application of Django with tasks, for the tests of the backend."""

from __future__ import annotations

import django
from django.apps import apps
from django.conf import settings

BACKEND = "mainspring.integrations.django.backend.MainspringBackend"


def set_up() -> None:
    """Configure Django in this process, once."""
    if not settings.configured:
        settings.configure(
            INSTALLED_APPS=["mainspring.integrations.django", "harness.django_app"],
            TASKS={"default": {"BACKEND": BACKEND, "QUEUES": []}},
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            USE_TZ=True,
        )
    if not apps.ready:
        django.setup()
