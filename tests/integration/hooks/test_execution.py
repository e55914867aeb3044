"""Hooks as real processes: what they are given, what they decide, and how they end."""

import asyncio
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agents.config.settings import HookSettings
from agents.hooks.execution import before_tool
from agents.hooks.protocol import HookDecision, HookVerdict
from tests.integration.tools.shell.marked_processes import Word, until


def hook(command: str, *, matcher: str = "", timeout: float = 30, name: str = "h") -> HookSettings:
    return HookSettings(name, matcher, command, timeout)


async def ask(
    folder: Path, *hooks: HookSettings, tool: str = "bash", tool_input: Any = None, **env: str
) -> HookVerdict:
    return await before_tool(
        hooks,
        tool_name=tool,
        tool_input={"command": "ls"} if tool_input is None else tool_input,
        session_id="s-1",
        working_dir=str(folder),
        env={"PATH": os.environ["PATH"], **env},
    )


async def test_it_reads_the_call_and_runs_in_the_working_directory(tmp_path: Path) -> None:
    command = 'cat > call.json; env > env.txt; pwd > pwd.txt; test "$SECRET" = kept'
    verdict = await ask(tmp_path, hook(command), tool_input={"command": "echo é"}, SECRET="kept")
    assert verdict.decision is HookDecision.NONE
    assert verdict.answers[0].fault == ""
    call = json.loads((tmp_path / "call.json").read_text())
    assert call["tool_input"] == {"command": "echo é"}
    assert (tmp_path / "pwd.txt").read_text().strip() == str(tmp_path)
    assert "CRUSH_TOOL_INPUT_COMMAND=echo é\n" in (tmp_path / "env.txt").read_text()


async def test_it_allows_denies_and_rewrites(tmp_path: Path) -> None:
    verdict = await ask(tmp_path, hook("""echo '{"decision": "allow"}'"""))
    assert verdict.decision is HookDecision.ALLOW
    verdict = await ask(tmp_path, hook("echo 'Not here.' >&2; exit 2"))
    assert (verdict.decision, verdict.reason) == (HookDecision.DENY, "Not here.")
    rewrite = """echo '{"updated_input": {"command": "pwd"}, "context": "shorter"}'"""
    verdict = await ask(tmp_path, hook(rewrite))
    assert verdict.updated_input == {"command": "pwd"}
    assert verdict.context == "shorter"


async def test_only_hooks_that_match_are_run(tmp_path: Path) -> None:
    verdict = await ask(tmp_path, hook("touch ran; exit 2", matcher="^edit$"))
    assert verdict == HookVerdict()
    assert not (tmp_path / "ran").exists()


async def test_all_run_at_the_same_time(tmp_path: Path) -> None:
    # Each waits for the other: one after the other, the first would never end.
    meet = 'touch {0}; until test -e {1}; do sleep 0.01; done; echo \'{{"context": "{0}"}}\''
    verdict = await ask(
        tmp_path, hook(meet.format("a", "b"), timeout=60), hook(meet.format("b", "a"), timeout=60)
    )
    assert verdict.context == "a\nb"


async def test_one_that_hangs_is_killed_with_all_it_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    word = Word()
    started = time.monotonic()
    with caplog.at_level(logging.WARNING, "agents.hooks"):
        verdict = await ask(
            tmp_path,
            hook(f"trap '' TERM; {word.sleeper} & {word.sleeper}", timeout=0.5, name="slow"),
            hook('echo \'{"decision": "allow"}\''),
        )
    assert time.monotonic() - started < 60
    assert verdict.decision is HookDecision.ALLOW
    assert word.pids() == set()
    assert (
        "the result of hook slow is ignored: it took longer than 0.5 seconds and was ended"
        in caplog.text
    )


async def test_cancelling_ends_all_that_runs(tmp_path: Path) -> None:
    word = Word()
    task = asyncio.ensure_future(ask(tmp_path, *[hook(word.sleeper)] * 4))
    await asyncio.to_thread(until, lambda: len(word.pids()) == 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert word.pids() == set()


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("exit 3", "it ended with exit code 3"),
        ("no-such-command-anywhere", "it ended with exit code 127"),
        ("echo not json", "its output is not JSON"),
        ("kill -9 $$", "it ended with exit code 137"),
        ("yes", "it printed more than 1,048,576 bytes"),
    ],
)
async def test_whatever_goes_wrong_is_no_opinion(tmp_path: Path, command: str, fault: str) -> None:
    verdict = await ask(tmp_path, hook(command))
    assert verdict.decision is HookDecision.NONE
    assert verdict.answers[0].fault == fault


async def test_a_folder_that_is_gone_is_no_opinion(tmp_path: Path) -> None:
    verdict = await ask(tmp_path / "missing", hook("true"))
    assert verdict.answers[0].fault == "it could not be started (ProcessFailed)"


async def test_a_flood_on_standard_error_is_bounded(tmp_path: Path) -> None:
    verdict = await ask(tmp_path, hook("head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 2"))
    assert verdict.decision is HookDecision.DENY
    assert len(verdict.reason) == 4_000


async def test_a_large_input_reaches_a_hook_that_reads_and_one_that_does_not(
    tmp_path: Path,
) -> None:
    large = {"content": "x" * 3_000_000}
    verdict = await ask(
        tmp_path, hook("wc -c > size.txt"), hook("true"), tool="write", tool_input=large
    )
    assert [answer.fault for answer in verdict.answers] == ["", ""]
    assert int((tmp_path / "size.txt").read_text()) > 3_000_000


async def test_a_call_that_no_hook_can_be_shown_is_denied(tmp_path: Path) -> None:
    verdict = await ask(tmp_path, hook("touch ran"), tool_input={"command": "rm\0 -r"})
    assert verdict.decision is HookDecision.DENY
    assert (
        verdict.reason
        == "The call cannot be shown to the hook h: command contains a NUL character."
    )
    assert not (tmp_path / "ran").exists()


async def test_nothing_that_a_hook_says_or_has_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "agents.hooks"):
        await ask(tmp_path, hook('echo "$TOKEN"; echo "$TOKEN" >&2; exit 1'), TOKEN="hush-hush")
        await ask(tmp_path, hook('echo "$TOKEN"'), TOKEN="hush-hush")
    assert "is ignored" in caplog.text
    assert "hush-hush" not in caplog.text


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    await ask(tmp_path, hook("true"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        await ask(tmp_path, hook("true"), hook("exit 2"), hook("sleep 60", timeout=0.1))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
