"""The server as a whole: health, version, its own configuration, and control of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import Text
from workspaces.api.version import version_facts
from workspaces.storage.errors import BadField

COMMANDS = frozenset({"shutdown", "shutdown_if_idle"})


class HealthView(ApiView):
    async def get(self, request: Request) -> HttpResponse:
        return empty_answer()


class VersionView(ApiView):
    async def get(self, request: Request) -> HttpResponse:
        return json_answer(version_facts())


class ServerConfigView(ApiView):
    async def get(self, request: Request) -> HttpResponse:
        """All configuration belongs to workspaces."""
        return json_answer({})


class ControlForm(Form):
    command = Text(limit=100, allow_blank=True, default="")


class ControlView(ApiView):
    # Given by the process: carries the command out or raises a Refusal.
    control: Callable[[str], None] | None = None

    async def post(self, request: Request) -> HttpResponse:
        command: Any = (await self.fields(ControlForm))["command"]
        if command not in COMMANDS:
            raise BadField("unknown command")
        if self.control is not None:
            self.control(command)
        return empty_answer()
