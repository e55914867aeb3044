"""The server as a whole: health, version, its own configuration, and control of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from django.http import HttpResponse

from workspaces.access import Right
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText
from workspaces.api.version import version_facts
from workspaces.log.errors import BadField

COMMANDS = frozenset({"shutdown", "shutdown_if_idle"})


class HealthView(ApiView):
    rights: ClassVar = {"get": Right.PUBLIC}

    async def get(self) -> HttpResponse:
        return empty_answer()


class VersionView(ApiView):
    rights: ClassVar = {"get": Right.SIGNED_IN}

    async def get(self) -> HttpResponse:
        return json_answer(version_facts())


class ServerConfigView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self) -> HttpResponse:
        """Returns an empty object, because all configuration belongs to workspaces."""
        return json_answer({})


class ControlForm(Form):
    command = PlainText(limit=100, allow_blank=True, default="")


class ControlView(ApiView):
    rights: ClassVar = {"post": Right.ADMINISTER}

    # Set with the URL: executes a command, or raises a ``Refusal``.
    control: Callable[[str], Awaitable[None]] | None = None

    async def post(self) -> HttpResponse:
        command: Any = (await self.fields(ControlForm))["command"]
        if command not in COMMANDS:
            raise BadField("unknown command")
        if self.control is not None:
            await self.control(command)
        return empty_answer()
