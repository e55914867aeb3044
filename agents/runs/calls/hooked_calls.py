"""Keeps the decisions of hooks about a run's open calls, so that no hook runs twice for a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

from agents.config.settings import HookSettings
from agents.hooks.ask import before_tool
from agents.hooks.verdict import HookDecision
from agents.runs.lease import Lease, require_lease
from workspaces.actions import messages
from workspaces.log.parts import ToolCall, ToolResult, parts_from_wire
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

HOOKS = "hooks"  # where they stand in a run's errand


def keep_hooked(
    tx: Transaction,
    held: Lease,
    said: Mapping[str, Mapping[str, Any]],
    *,
    message_id: str,
    rewritten: ToolCall | None,
) -> None:
    """``said``: by call. A call that hooks rewrote is shown and run as it is from now on."""
    run = require_lease(tx, held)
    ((errand,),) = tx.fetch("SELECT errand FROM agents_run WHERE id = %s", [run.key])
    kept = orjson.loads(errand) | {HOOKS: dict(said)}
    tx.execute(
        "UPDATE agents_run SET errand = %s WHERE id = %s", [orjson.dumps(kept).decode(), run.key]
    )
    if rewritten is None:
        return
    ((wire,),) = tx.fetch("SELECT parts FROM workspaces_message WHERE id = %s", [message_id])
    parts = tuple(
        replace(part, input=rewritten.input)
        if isinstance(part, ToolCall) and part.id == rewritten.id
        else part
        for part in parts_from_wire(orjson.loads(wire))
    )
    messages.change_message(tx, run.workspace_id, message_id, parts=parts)


@dataclass(frozen=True, slots=True)
class Hooked:
    """What the hooks said of a call, as far as it matters after they were asked."""

    decision: str = HookDecision.NONE.value
    reason: str = field(default="", repr=False)
    context: str = field(default="", repr=False)
    shown: Mapping[str, Any] | None = field(default=None, repr=False)  # in the result's metadata

    @property
    def denies(self) -> bool:
        return self.decision == HookDecision.DENY

    @property
    def allows(self) -> bool:
        return self.decision == HookDecision.ALLOW


class HookMemory:
    def __init__(self, held: Lease, errand: str) -> None:
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
