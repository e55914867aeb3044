"""Endpoint for user commands, which need no permission and are stored as messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from django.http import HttpResponse
from rest_framework import serializers
from typing_extensions import override

from agents.config.cache import configs
from agents.jobs.user_command import UserCommand, run_user_command
from agents.runs.tool_servers.own_environment import server_env
from agents.tools import limits
from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import MESSAGES, PlainText
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.queries.sessions import require_session
from workspaces.queries.workspaces import read_open_workspace

MOST_COLUMNS = 1_000
LONGEST_SECONDS = 86_400.0  # of a command elsewhere; it ends with its worker


class Columns(serializers.Field[int, Any, int, Any]):
    """The width of the client's terminal; 0 or less means that there is none."""

    default_error_messages = MESSAGES | {"invalid": "must be a whole number"}

    @override
    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return max(0, min(data, MOST_COLUMNS))

    @override
    def to_representation(self, value: int) -> int:
        return value


class ShellForm(Form):
    command = PlainText(limit=limits.MAX_COMMAND_BYTES)
    term_width = Columns(default=0, allow_null=True)


class ShellView(ApiView):
    rights: ClassVar = {"post": Right.SHELL}
    folder_methods: ClassVar = frozenset({"post"})
    folder_seconds: ClassVar = LONGEST_SECONDS

    async def post(self, workspace_id: str, session_id: str) -> HttpResponse:
        """Runs a command and answers at its end. The command outlives a lost connection."""
        fields = await self.fields(ShellForm)
        if not fields["command"].strip():
            raise BadField("command: must not be empty")
        workspace = await read(read_open_workspace, workspace_id)
        await read(require_session, workspace_id, session_id)
        ended = await run_user_command(
            UserCommand(
                workspace_id=workspace_id,
                session_id=session_id,
                command=fields["command"],
                folder=Path(workspace.folder),
                env=await configs().env_of(workspace_id) or server_env(),
                columns=fields["term_width"] or 0,
                actor=self.actor,
            )
        )
        return json_answer({"output": ended.output, "exit_code": ended.exit_code})
