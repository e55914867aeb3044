"""Asks the hooks of a call once, and remembers what they said until the call has its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

from agents.config.settings import HookSettings
from agents.hooks.ask import before_tool
from agents.hooks.verdict import Decision
from agents.runs.calls.hooked_calls import HOOKS, keep_hooked
from agents.runs.lease import Held
from workspaces.log.parts import ToolCall, ToolResult
from workspaces.log.writer import writer


@dataclass(frozen=True, slots=True)
class Hooked:
    """What the hooks said of a call, as far as it matters after they were asked."""

    decision: str = Decision.NONE.value
    reason: str = field(default="", repr=False)
    context: str = field(default="", repr=False)
    shown: Mapping[str, Any] | None = field(default=None, repr=False)  # in the result's metadata

    @property
    def denies(self) -> bool:
        return self.decision == Decision.DENY

    @property
    def allows(self) -> bool:
        return self.decision == Decision.ALLOW


class HookMemory:
    def __init__(self, held: Held, errand: str) -> None:
        self._held = held
        stored = orjson.loads(errand).get(HOOKS) or {}
        self._said = {call_id: Hooked(**said) for call_id, said in stored.items()}

    async def ask(
        self,
        hooks: Sequence[HookSettings],
        call: ToolCall,
        *,
        message_id: str,
        open_calls: frozenset[str],
        working_dir: str,
        env: Mapping[str, str],
        rewrite: Callable[[ToolCall], None],
    ) -> tuple[Hooked, ToolCall]:
        """The call as the hooks left it. Its input must be a JSON object."""
        known = self._said.get(call.id)
        if known is not None or not hooks:
            return known or Hooked(), call
        verdict = await before_tool(
            hooks,
            tool_name=call.name,
            tool_input=orjson.loads(call.input or "{}"),
            session_id=self._held.session_id,
            working_dir=working_dir,
            env=env,
        )
        shown = verdict.metadata()
        if shown is None:  # none of them is for this tool
            return Hooked(), call
        rewritten: ToolCall | None = None
        if verdict.updated_input is not None:
            rewritten = replace(call, input=orjson.dumps(dict(verdict.updated_input)).decode())
        hooked = Hooked(verdict.decision.value, verdict.reason, verdict.context, shown)
        kept = {i: said for i, said in self._said.items() if i in open_calls}
        kept[call.id] = hooked
        self._said = kept
        told = {call_id: asdict(said) for call_id, said in kept.items()}
        await writer.write(
            self._held.workspace_id,
            lambda tx: keep_hooked(
                tx, self._held, told, message_id=message_id, rewritten=rewritten
            ),
        )
        if rewritten is not None:
            rewrite(rewritten)
        return hooked, rewritten or call

    def marked(self, result: ToolResult) -> ToolResult:
        """The call's result with what the hooks want the model and the clients to know."""
        hooked = self._said.get(result.tool_call_id)
        if hooked is None:
            return result
        content = f"{result.content}\n\n{hooked.context}" if hooked.context else result.content
        metadata = orjson.loads(result.metadata) if result.metadata else {}
        shown = orjson.dumps(metadata | {"hook": hooked.shown}).decode()
        return replace(result, content=content, metadata=shown.replace("\\u0000", "\\ufffd"))
