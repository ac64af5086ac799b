"""Django: a backend of `django.tasks`, and the command that runs its tasks.

    INSTALLED_APPS = [..., "mainspring.integrations.django"]
    TASKS = {"default": {"BACKEND": "mainspring.integrations.django.backend.MainspringBackend"}}

Django 6 has `django.tasks`; earlier ones have the same interface in the package `django_tasks`, and one adapter serves
both. It needs the extra `django`.
"""
