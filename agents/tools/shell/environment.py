"""The environment of a tool's processes: the workspace's, the mark, and no interactive programs."""

from __future__ import annotations

from collections.abc import Mapping

from agents.tools.contract import ToolContext
from agents.tools.shell.identity import PROCESS_MARK, SERVER_MARK

# Commands are not interactive: pagers, editors and password prompts would block them.
_UNATTENDED = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "",
    "GH_PAGER": "cat",
    "AWS_PAGER": "",
    "BAT_PAGER": "",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` needs no permission, so it must not write the index
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
}
_TERMINAL_LINES = 50


def marked_environment(context: ToolContext) -> dict[str, str]:
    return {**context.env, PROCESS_MARK: context.process_mark}


def unattended_environment(context: ToolContext) -> dict[str, str]:
    return {**marked_environment(context), **_UNATTENDED}


def user_environment(
    env: Mapping[str, str], *, process_mark: str, server_mark: str, columns: int
) -> dict[str, str]:
    """Returns the environment for a user's command, with a terminal if ``columns`` is set."""
    made = {**env, PROCESS_MARK: process_mark, SERVER_MARK: server_mark, **_UNATTENDED}
    if columns:
        made |= {
            "TERM": "xterm-256color",
            "COLUMNS": str(columns),
            "LINES": str(_TERMINAL_LINES),
        }
    return made
