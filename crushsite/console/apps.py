"""Django's entry."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "crushsite.console"
    label = "console"
    verbose_name = "Console"
