"""What a hook is given: a JSON object to read, and variables. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.config.settings import HookSettings

EVENT = "PreToolUse"
TEXT_LIMIT = 100_000  # bytes of a variable: as much as a command may have
_NAME_LIMIT = 200
# Arguments that hooks are also given as variables.
_VARIABLES = {
    "command": "CRUSH_TOOL_INPUT_COMMAND",
    "file_path": "CRUSH_TOOL_INPUT_FILE_PATH",
}


class Unshowable(Exception):
    """Why no hook can be shown the call."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that is about to be judged."""

    tool_name: str
    tool_input: Mapping[str, Any] = field(repr=False)
    session_id: str
    working_dir: str

    def as_json(self) -> bytes:
        """Raises ``Unshowable``."""
        self._check_variables()
        try:
            return orjson.dumps(
                {
                    "event": EVENT,
                    "hook_event_name": EVENT,  # as hooks of other agents look for it
                    "session_id": self.session_id,
                    "cwd": self.working_dir,
                    "tool_name": self.tool_name,
                    "tool_input": dict(self.tool_input),
                }
            )
        except orjson.JSONEncodeError:
            raise Unshowable("its arguments cannot be written as JSON") from None

    def variables(self) -> dict[str, str]:
        return {
            "CRUSH_EVENT": EVENT,
            "CRUSH_TOOL_NAME": self.tool_name,
            "CRUSH_SESSION_ID": self.session_id,
            "CRUSH_CWD": self.working_dir,
            "CRUSH_PROJECT_DIR": self.working_dir,
        } | {
            variable: value
            for name, variable in _VARIABLES.items()
            if isinstance(value := self.tool_input.get(name), str)
        }

    def _check_variables(self) -> None:
        for name in _VARIABLES:
            value = self.tool_input.get(name)
            if not isinstance(value, str):
                continue
            if "\0" in value:
                raise Unshowable(f"{name} holds a NUL character")
            try:
                size = len(os.fsencode(value))
            except UnicodeEncodeError:
                raise Unshowable(f"{name} holds characters that are not Unicode text") from None
            if size > TEXT_LIMIT:
                raise Unshowable(f"{name} is longer than {TEXT_LIMIT:,} bytes")


def matching(hooks: Sequence[HookSettings], tool_name: str) -> list[HookSettings]:
    """Anywhere in the name and whatever the case: a guard is rather asked once too often."""
    name = tool_name[:_NAME_LIMIT]
    return [hook for hook in hooks if re.search(hook.matcher, name, re.IGNORECASE) is not None]
