"""The built-in model, which needs no network and has no intelligence.

It understands a few plain requests (``agents.llm.wires.offline_plans``), calls the real
tools for them, and otherwise explains how to configure a real model. It keeps no
state: the transcript shows the earlier steps.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import orjson

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
from agents.llm.wires.offline_plans import OfflinePlan, OfflineStep, plan_for
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import FinishReason, Role, Text, ToolResult, plain_text

QUOTED_LINES = 12
QUOTED_WIDTH = 160
TITLE_LENGTH = 50
TITLE = re.compile(r"\btitle\b", re.IGNORECASE)
SUMMARY = re.compile(r"\bsum(?:mary|mari[sz])", re.IGNORECASE)

ABOUT = """\
I am the built-in offline model: a small program without any real intelligence. \
I need no network and no key, so that you can try this server at once.

These plain requests I understand, and I use the real tools for them:
- list files in src
- find files named *.py
- read README.md
- search for TODO in src
- write notes.txt containing Hello
- replace Hello with Goodbye in notes.txt
- append "one more line" to notes.txt
- run git status

To work with a real model, do one of these and start again:
- set OPENAI_API_KEY or ANTHROPIC_API_KEY in the environment;
- start Ollama on this machine: its models are found by themselves;
- start this server with bin/serve --local-model: a very small model runs in it;
- name any other provider in crush.json:

```json
{
  "providers": {
    "mine": {
      "type": "openai-compat",
      "base_url": "http://127.0.0.1:8080/v1",
      "api_key": "$MY_KEY",
      "models": [{"id": "my-model", "name": "My model"}]
    }
  },
  "models": {"large": {"provider": "mine", "model": "my-model"}}
}
```"""


class OfflineModel:
    def __init__(
        self,
        *,
        word_seconds: float = 0.005,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.word_seconds = word_seconds
        self._sleep = sleep

    async def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        text, call = reply_to(request)
        words = 0
        for word in _words(text):
            # Sleeps even for 0 seconds: a long reply must not block the loop.
            await self._sleep(self.word_seconds)
            yield [TextDelta(word)]
            words += 1
        usage = Usage(input=_size(request), output=max(words, 1))
        if call is None:
            yield [Stopped(FinishReason.END_TURN, usage)]
            return
        call_id, step = call
        given = orjson.dumps(dict(step.arguments)).decode()
        yield [
            ToolCallStarted(call_id, step.tool),
            ToolInputDelta(call_id, given),
            ToolCallFinished(call_id),
            Stopped(FinishReason.TOOL_USE, usage),
        ]


def reply_to(request: ModelRequest) -> tuple[str, tuple[str, OfflineStep] | None]:
    """Returns the text, and perhaps a call with its id. Pure and deterministic."""
    newest, results = _newest(request.messages)
    prompt = "" if newest is None else plain_text(newest.parts)
    if not request.tools:
        return _without_tools(request, prompt), None
    plan = plan_for(prompt, request.working_dir)
    if newest is None or plan is None:
        return ABOUT, None
    if results and results[-1].is_error:
        return _failure_text(results[-1]), None
    if len(results) >= len(plan.steps):
        return _result_text(plan, results[-1]), None
    step = plan.steps[len(results)]
    if all(tool.name != step.tool for tool in request.tools):
        return f"I would need the tool `{step.tool}` for that, and it is switched off here.", None
    call_id = f"offline_{re.sub('[^a-zA-Z0-9]', '', newest.id)[-24:]}_{len(results)}"
    return ("" if results else plan.announcement), (call_id, step)


def _newest(messages: Sequence[TurnMessage]) -> tuple[TurnMessage | None, list[ToolResult]]:
    """Returns the last prompt with text, and the tool results after it."""
    results: list[ToolResult] = []
    for message in reversed(messages):
        if message.role is Role.USER and plain_text(message.parts).strip():
            return message, results[::-1]
        if message.role is Role.TOOL:
            found = [part for part in message.parts if isinstance(part, ToolResult)]
            results += reversed(found)
    return None, results[::-1]


def _without_tools(request: ModelRequest, prompt: str) -> str:
    """Returns a title or a summary, which are the requests without tools."""
    request_text = request.system if TITLE.search(request.system) else f"{request.system}\n{prompt}"
    if SUMMARY.search(request_text):
        return _summary(request.messages)
    lines = [line.strip() for line in prompt.splitlines() if line.strip()]
    # The request for a title is a line before the prompt itself.
    if len(lines) > 1 and lines[0].endswith(":") and TITLE.search(lines[0]):
        lines = lines[1:]
    title = " ".join(lines[0].split()) if lines else "New session"
    if len(title) <= TITLE_LENGTH:
        return title
    cut = title[: TITLE_LENGTH - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"


def _summary(messages: Sequence[TurnMessage]) -> str:
    prompts = [
        " ".join(part.text.split())[:QUOTED_WIDTH]
        for message in messages
        if message.role is Role.USER
        for part in message.parts
        if isinstance(part, Text) and part.text.strip() and not SUMMARY.search(part.text)
    ]
    if not prompts:
        return "There is no prompt yet."
    listed = "\n".join(f"- {prompt}" for prompt in prompts[-50:])
    return f"The user's prompts in this session:\n{listed}"


def _result_text(plan: OfflinePlan, result: ToolResult) -> str:
    if not result.content.strip():
        return "That is done; there was nothing to show."
    return f"{plan.conclusion}\n\n{_quoted(result.content)}"


def _failure_text(result: ToolResult) -> str:
    reason = _quoted(result.content) if result.content.strip() else "It gave no reason."
    return f"That did not work. The tool `{result.name}` says:\n\n{reason}"


def _quoted(content: str) -> str:
    """Returns the first lines in a fence, with a note of the omitted ones."""
    lines = content.strip("\n").splitlines()
    shown = [
        line if len(line) <= QUOTED_WIDTH else line[: QUOTED_WIDTH - 1] + "…"
        for line in lines[:QUOTED_LINES]
    ]
    text = "\n".join(shown)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    left = len(lines) - len(shown)
    more = f"\n\n… and {left} more line{'' if left == 1 else 's'}." if left else ""
    return f"{fence}\n{text}\n{fence}{more}"


def _words(text: str) -> Iterator[str]:
    """Yields each word with its white space, so that they join to the text again."""
    return (match[0] for match in re.finditer(r"\s*\S+\s*", text))


def _size(request: ModelRequest) -> int:
    """Returns a rough number of input tokens, for the clients' display."""
    characters = sum(
        len(part.text) if isinstance(part, Text) else len(part.content)
        for message in request.messages
        for part in message.parts
        if isinstance(part, Text | ToolResult)
    )
    return (len(request.system) + characters) // 4 + 1
