"""Checks and runs the calls of a run's newest reply, and keeps results until they are written.

``calls`` performs one call; its result becomes an input of the turn machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agents.runs.calls import calls
from agents.runs.calls.hooked_calls import HookMemory
from agents.runs.calls.permission_check import CallVerdict
from agents.runs.conversation import Conversation
from agents.runs.lease import Lease
from agents.runs.setup import SetupInUse
from agents.turn.inputs import Allowed, AnswerNeeded, Denied, Input, ToolEnded
from workspaces.log.parts import ToolResult


class RunCalls:
    def __init__(
        self,
        held: Lease,
        briefing: SetupInUse,
        conversation: Conversation,
        *,
        errand: str,
        server_mark: str,
        tell: Callable[[Input], None],
    ) -> None:
        self.results: dict[str, ToolResult] = {}  # not written yet
        self.reads: dict[str, calls.Reads] = {}  # files, by the call that has read them
        self._held = held
        self._briefing = briefing
        self._conversation = conversation
        self._hooks = HookMemory(held, errand)
        self._server_mark = server_mark
        self._tell = tell

    async def judge(self, call_id: str) -> None:
        """Tells whether the call may run, or its result where it does not come to that."""
        call = self._conversation.calls[call_id]
        try:
            verdict = await calls.judge(self._bench(), call, self._conversation.call_message_id)
        except calls.Failed as failed:
            self._end(calls.failure(call, str(failed)))
            return
        match verdict:
            case ToolResult():
                self._end(verdict)
            case CallVerdict.ALLOWED:
                self._tell(Allowed(call_id))
            case calls.Denial(result):
                self.results[call_id] = result
                self._tell(Denied(call_id))
            case CallVerdict.DENIED:
                self._tell(Denied(call_id))
            case CallVerdict.ASKED:
                self._tell(AnswerNeeded(call_id))

    async def run(self, call_id: str) -> None:
        """Tells its result. Cancelling ends what it started."""
        result, reads = await calls.run(
            self._bench(), self._conversation.calls[call_id], self._conversation.call_message_id
        )
        self.reads[call_id] = reads
        self._end(result)

    def fail(self, call_id: str, content: str) -> None:
        self._end(calls.failure(self._conversation.calls[call_id], content))

    def keep(self, results: Sequence[ToolResult], refusals: Mapping[str, str]) -> None:
        """These results were written: they are part of the conversation."""
        refused = [
            calls.failure(self._conversation.calls[call_id], content)
            for call_id, content in refusals.items()
        ]
        for result in [*results, *refused]:
            self._conversation.add_result(result)
            self.results.pop(result.tool_call_id, None)
            self.reads.pop(result.tool_call_id, None)

    def _end(self, result: ToolResult) -> None:
        result = self._hooks.marked(result)
        self.results[result.tool_call_id] = result
        self._tell(ToolEnded(result.tool_call_id, result.content))

    def _bench(self) -> calls.Workbench:
        brief = self._briefing.brief
        if brief is None:
            # Only a resumed run whose configuration broke meanwhile comes here.
            raise calls.Failed(self._briefing.fault)
        return calls.Workbench(
            self._held,
            brief.working_dir,
            brief.tools,
            brief.settings.allowed_tools,
            brief.env,
            self._server_mark,
            brief.languages,
            sees_images=brief.model.info.supports_attachments,
            hook_memory=self._hooks,
            rewrite=self._conversation.rewrite,
            web_allowed_hosts=brief.settings.web_allowed_hosts,
            data_dir=brief.data_dir,
            hooks=brief.settings.pre_tool_hooks,
            open_calls=frozenset(self._conversation.calls),
            agent_role=brief.settings.agent_role,
            skills=brief.skills,
            skill_folders=brief.settings.skills_paths,
        )
