"""The server as a whole: health, version, its own configuration, and control of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpResponse

from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText
from workspaces.api.version import version_facts
from workspaces.log.errors import BadField

COMMANDS = frozenset({"shutdown", "shutdown_if_idle"})


class HealthView(ApiView):
    async def get(self) -> HttpResponse:
        return empty_answer()


class VersionView(ApiView):
    async def get(self) -> HttpResponse:
        return json_answer(version_facts())


class ServerConfigView(ApiView):
    async def get(self) -> HttpResponse:
        """All configuration belongs to workspaces."""
        return json_answer({})


class ControlForm(Form):
    command = PlainText(limit=100, allow_blank=True, default="")


class ControlView(ApiView):
    # Given with the address: carries a command out, or raises a refusal.
    control: Callable[[str], Awaitable[None]] | None = None

    async def post(self) -> HttpResponse:
        command: Any = (await self.fields(ControlForm))["command"]
        if command not in COMMANDS:
            raise BadField("unknown command")
        if self.control is not None:
            await self.control(command)
        return empty_answer()
