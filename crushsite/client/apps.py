"""The app of the commands that use a server like any other client, here or on another machine."""

from __future__ import annotations

from django.apps import AppConfig


class ClientCommandsConfig(AppConfig):
    name = "crushsite.client"
    label = "crushsite_client"
    verbose_name = "Client commands"
