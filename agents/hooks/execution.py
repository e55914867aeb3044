"""Runs the hooks that match a tool call, and returns their combined decision.

They run at the same time: they are independent guards that each see the call as the model
wrote it, and a turn waits for the slowest instead of for their sum. A hook that hangs is
killed with everything it started. Any other failure is logged, and decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from agents.config.settings import HookSettings
from agents.hooks.protocol import (
    CannotShowCall,
    HookAnswer,
    HookDecision,
    HookVerdict,
    ToolUse,
    answer_of,
    matching,
    verdict_of,
)
from agents.tools.shell.command import Pump, run
from agents.tools.shell.identity import PROCESS_MARK
from agents.tools.shell.output import BoundedOutput
from agents.tools.shell.process import ProcessFailed
from workspaces.log.ids import new_id
from workspaces.tasks import wait_until_set

logger = logging.getLogger(__name__)

AT_ONCE = 8
_OUTPUT_LIMIT = 1 << 20
_ERROR_LIMIT = 16 << 10
_DRAIN_SECONDS = 1.0


async def before_tool(
    hooks: Sequence[HookSettings],
    *,
    tool_name: str,
    tool_input: Mapping[str, Any],
    session_id: str,
    working_dir: str,
    env: Mapping[str, str],
) -> HookVerdict:
    """Runs the matching hooks and returns their verdict. Raises nothing.

    Cancelling kills the running hooks. ``env`` is their whole environment.
    """
    matched = matching(hooks, tool_name)
    if not matched:
        return HookVerdict()
    use = ToolUse(tool_name, tool_input, session_id, working_dir)
    try:
        payload = await asyncio.to_thread(use.as_json)
    except CannotShowCall as error:
        # A call that the hook cannot see must not pass it.
        return verdict_of([_denied(hook, str(error)) for hook in matched[:1]], tool_input)
    places = asyncio.Semaphore(AT_ONCE)

    async def call(hook: HookSettings) -> HookAnswer:
        async with places:
            return await _answer(hook, use, payload, env)

    # A group waits for all its tasks, also when it is cancelled, so that no hook is left running.
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call(hook)) for hook in matched]
    answers = [task.result() for task in tasks]
    for answer in answers:
        if answer.fault:
            log = {"session": session_id}
            logger.warning(
                "the result of hook %s is ignored: %s", answer.name, answer.fault, extra=log
            )
    return verdict_of(answers, tool_input)


def _denied(hook: HookSettings, why: str) -> HookAnswer:
    reason = f"The call cannot be shown to the hook {hook.name}: {why}."
    return HookAnswer(hook.name, hook.matcher, HookDecision.DENY, reason)


async def _answer(
    hook: HookSettings, use: ToolUse, payload: bytes, env: Mapping[str, str]
) -> HookAnswer:
    try:
        return await _run(hook, use, payload, env)
    except (ProcessFailed, OSError) as error:
        # The text of the error could contain values of the environment, so it is not logged.
        fault = f"it could not be started ({type(error).__name__})"
    except Exception as error:
        logger.exception("calling hook %s failed", hook.name)
        fault = f"calling it failed ({type(error).__name__})"
    return HookAnswer(hook.name, hook.matcher, fault=fault)


async def _run(
    hook: HookSettings, use: ToolUse, payload: bytes, env: Mapping[str, str]
) -> HookAnswer:
    stdout, complaint = _WholeOutput(), BoundedOutput(_ERROR_LIMIT)
    with contextlib.ExitStack() as opened:
        stdin = opened.enter_context(await asyncio.to_thread(_file_of, payload))
        reads, writes = os.pipe()
        stderr = opened.enter_context(open(writes, "wb", buffering=0))  # noqa: PTH123, ASYNC230  a pipe, no disk
        pump = Pump(reads, complaint)
        opened.callback(pump.close)
        pump.start()
        finished = await run(
            [await asyncio.to_thread(_shell, env), "-c", hook.command],
            cwd=Path(use.working_dir),
            env={**env, PROCESS_MARK: new_id(), **use.variables()},
            sink=stdout,
            timeout_seconds=hook.timeout_seconds,
            stdin=stdin.fileno(),
            stderr=stderr.fileno(),
        )
        stderr.close()
        await wait_until_set(pump.drained, seconds=_DRAIN_SECONDS)
    fault = ""
    if finished.timed_out:
        fault = f"it took longer than {hook.timeout_seconds:g} seconds and was ended"
    elif finished.stopped:
        fault = f"it printed more than {_OUTPUT_LIMIT:,} bytes"
    elif finished.exceeded:
        fault = finished.exceeded
    if fault:
        return HookAnswer(hook.name, hook.matcher, fault=fault)
    return answer_of(
        hook.name,
        hook.matcher,
        exit_code=finished.exit_code,
        stdout=bytes(stdout.data),
        stderr=complaint.text(),
    )


class _WholeOutput:
    """Keeps a hook's whole output up to a limit: a truncated answer cannot be parsed."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, chunk: bytes) -> bool:
        self.data += chunk
        return len(self.data) <= _OUTPUT_LIMIT


def _file_of(payload: bytes) -> BinaryIO:
    """Returns an open file with the payload, at its beginning.

    A pipe would block the writer when the hook reads nothing.
    """
    if hasattr(os, "memfd_create"):
        file: BinaryIO = os.fdopen(os.memfd_create("tool-use"), "w+b")  # never on a disk
    else:
        file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  its reader closes it
    file.write(payload)
    file.seek(0)  # this flushes the file too
    return file


def _shell(env: Mapping[str, str]) -> str:
    path = env.get("PATH")
    return shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"
