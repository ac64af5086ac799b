"""The Scheduler of Django's default backend, for `mainspring worker mainspring.integrations.django.worker:scheduler`.

The command of this module has all that `mainspring worker` has: several processes, a supervisor, probes. It needs
DJANGO_SETTINGS_MODULE; MAINSPRING_DJANGO_BACKEND names another backend than `default`.
"""

from __future__ import annotations

import os

import django
from django.apps import apps

from mainspring.integrations.django.discovery import open_backend
from mainspring.sync import Scheduler

if not apps.ready:
    django.setup()

scheduler: Scheduler = open_backend(os.environ.get("MAINSPRING_DJANGO_BACKEND", "default")).worker()
