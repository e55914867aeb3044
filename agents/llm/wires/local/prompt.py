"""What the local model is told: far less than a large one. Pure.

Everything is measured in bytes, of which no token has less than one: so the
window holds whatever is sent, in every script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agents.llm.content_parts import Image, result_parts, user_parts
from agents.llm.contract import ModelRequest, ToolSpec
from agents.llm.history import AssistantTurn, UserTurn, repaired
from agents.llm.wires.offline_plans import plan_for
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import Role, Text, ToolCall, plain_text

Json = dict[str, Any]

LONGEST_TEXT = 400
MOST_PROPERTIES = 8
DEPTH = 4
_SIMPLE = ("string", "integer", "number", "boolean", "null")


def constrained(schema: Mapping[str, Any], depth: int = DEPTH) -> Json:
    """An object with its required properties; with the first where none is required."""
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


PROMPT_LIMIT = 4_000  # characters that are looked at


def tool_asked_for(
    prompt: str, tools: Sequence[ToolSpec], *, working_dir: str = ""
) -> ToolSpec | None:
    by_name = {tool.name: tool for tool in tools}
    if (named := _named(prompt[:PROMPT_LIMIT], by_name)) is not None:
        return by_name[named]
    plan = plan_for(prompt, working_dir)
    return by_name.get(plan.steps[0].tool) if plan is not None and plan.steps else None


def _named(prompt: str, names: Sequence[str] | dict[str, ToolSpec]) -> str | None:
    """The first that is called a tool, or stands in backticks behind "use" or "call"."""
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
    """The tool that is to be called now: only for a prompt that no tool has answered yet."""
    last = request.messages[-1] if request.messages else None
    if last is None or last.role is not Role.USER or not request.tools:
        return None
    return tool_asked_for(plain_text(last.parts), request.tools, working_dir=request.working_dir)


def words_body(request: ModelRequest) -> Json:
    """For an answer in words."""
    # A title or a summary is asked for without tools, by a prompt that says how.
    system = SYSTEM if request.tools or not request.system else request.system
    return _body(
        [_message("system", _cut(system, SYSTEM_BYTES)), *_history(request.messages)],
        max_tokens=max(1, min(request.max_tokens, MOST_TOKENS)),
        temperature=WARMTH if request.temperature is None else request.temperature,
        repeat_penalty=1.1,
    )


def call_body(request: ModelRequest, tool: ToolSpec) -> Json:
    """For the arguments of one tool, which cannot come out against its schema."""
    schema = constrained(tool.schema)
    said = _cut(plain_text(request.messages[-1].parts), HISTORY_BYTES // 2)
    messages = [_message("system", ARGUMENTS)]
    for asked, name, argument, answer in EXAMPLES:
        messages.append(_message("user", _asked(asked, name, argument)))
        messages.append(_message("assistant", answer))
    names = _cut(", ".join(schema["properties"]), 400)
    messages.append(_message("user", _asked(said, tool.name, names)))
    return _body(
        messages,
        max_tokens=max(1, min(request.max_tokens, CALL_TOKENS)),
        temperature=0,
        grammar=f"%llguidance {{}}\nstart: %json {_written(schema)}",
    )


def _written(schema: Json) -> str:
    tight = schema | {"x-guidance": {"whitespace_flexible": False}}
    return orjson.dumps(tight).decode()


def _asked(said: str, tool: str, arguments: str) -> str:
    return f"Request: {said}\nTool: {tool}\nArguments: {arguments}"


def _body(messages: list[Json], **more: Any) -> Json:
    return {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        # Between two batches of the prompt we hear of it, and may cancel.
        "return_progress": True,
        **more,
    }


def _history(messages: tuple[TurnMessage, ...]) -> list[Json]:
    """The newest that fit, beginning with the user; the last is cut rather than left out."""
    told: list[tuple[str, str]] = []
    for turn in repaired(messages):
        if isinstance(turn, UserTurn):
            words = [
                "(an image)" if isinstance(item, Image) else item
                for item in user_parts(turn, sees=False)
            ]
            told.append(("user", "\n".join(words)))
        else:
            told += _reply(turn)
    kept: list[Json] = []
    room = HISTORY_BYTES
    for role, text in reversed(told):
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
    told = [("assistant", "\n".join([words, *used] if words else used))]
    for result in turn.results:
        text, _image = result_parts(result, sees=False)
        told.append(("user", f"The tool {result.name} answers:\n{_cut(text, RESULT_BYTES)}"))
    return told


def _message(role: str, text: str) -> Json:
    # The marks between messages must not come out of somebody's words.
    return {"role": role, "content": text.replace("<|", "< |")}


def _cut(text: str, limit: int) -> str:
    """Its beginning and its end, where it is too long."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    half = max((limit - 5) // 2, 0)
    head, tail = raw[:half].decode("utf-8", "ignore"), raw[-half:].decode("utf-8", "ignore")
    return f"{head}\n…\n{tail}" if half else ""
