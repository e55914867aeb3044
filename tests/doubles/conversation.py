"""Short ways to write down a conversation and a request."""

from __future__ import annotations

from typing import Any

from agents.config.settings import ModelInfo
from agents.llm.contract import ModelRequest, ToolSpec
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import Part, Role, Text, ToolResult

MODEL = ModelInfo("m-1", "Model", supports_attachments=True, can_reason=True)
BLIND = ModelInfo("m-2", "Blind model")
BASH = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {}})


def user(*parts: Part | str, id: str = "u1") -> TurnMessage:
    return TurnMessage(id, Role.USER, tuple(Text(p) if isinstance(p, str) else p for p in parts))


def assistant(*parts: Part | str, provider: str = "p") -> TurnMessage:
    content = tuple(Text(p) if isinstance(p, str) else p for p in parts)
    return TurnMessage("a1", Role.ASSISTANT, content, model="m-1", provider=provider)


def tool(*results: ToolResult) -> TurnMessage:
    return TurnMessage("t1", Role.TOOL, results)


def request(*messages: TurnMessage, **more: Any) -> ModelRequest:
    more.setdefault("model", MODEL)
    more.setdefault("system", "Be good.")
    more.setdefault("tools", (BASH,))
    return ModelRequest(messages=messages, **more)
