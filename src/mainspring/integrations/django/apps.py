"""The application, which has the command `mainspring_worker`."""

from django.apps import AppConfig


class MainspringConfig(AppConfig):
    """Mainspring as an application of Django. It has no models."""

    name = "mainspring.integrations.django"
    label = "mainspring"
    verbose_name = "Mainspring"
