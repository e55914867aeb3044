"""The bash tool over real processes."""

import asyncio
import dataclasses
import itertools
import sys
import time
from pathlib import Path

import pytest

from agents.tools.contract import BadArguments, ToolOutcome, ToolRefusal
from agents.tools.shell.bash import Bash
from agents.tools.shell.jobs import JobOrder, JobReport, NoJobs
from agents.tools.shell.process import SUPERVISOR
from tests.doubles.tool_context import ToolDoubles, make_tool_doubles
from tests.integration.tools.shell.marked_processes import Word, daemon_command, until


@pytest.fixture
def doubles(tmp_path: Path) -> ToolDoubles:
    return make_tool_doubles(tmp_path)


async def call(doubles: ToolDoubles, command: str, **more: object) -> ToolOutcome:
    tool = Bash(timeout_seconds=float(str(more.pop("timeout", 60))))
    args = tool.parse({"command": command, "description": "d", **more})
    return await tool.run(args, doubles.context)


async def test_it_asks_as_clients_expect(doubles: ToolDoubles) -> None:
    tool = Bash()
    args = tool.parse({"command": "touch made.txt", "description": "make"})
    question = await tool.required_permission(args, doubles.context)
    assert question is not None
    assert (question.tool_name, question.action) == ("bash", "execute")
    assert question.path == str(doubles.context.working_dir)
    assert question.description == "Execute command: touch made.txt"
    assert question.params == {
        "auto_background_after": 0,
        "command": "touch made.txt",
        "description": "make",
        "run_in_background": False,
        "working_dir": "",
    }


async def test_it_does_not_ask_for_reading(doubles: ToolDoubles) -> None:
    tool = Bash()
    args = tool.parse({"command": "ls -la", "description": ""})
    assert await tool.required_permission(args, doubles.context) is None


@pytest.mark.parametrize("folder", ["sub", "..", "/", "way"])
async def test_it_asks_for_reading_elsewhere(
    doubles: ToolDoubles, tmp_path: Path, folder: str
) -> None:
    """A repository that somebody put there may make git run what it likes."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "sub")
    tool = Bash()
    for command in ("ls -la", "git status"):
        args = tool.parse({"command": command, "description": "", "working_dir": folder})
        question = await tool.required_permission(args, doubles.context)
        assert question is not None
        assert question.path == str((tmp_path / folder).resolve())
    at_home = tool.parse({"command": "ls", "description": "", "working_dir": "."})
    assert await tool.required_permission(at_home, doubles.context) is None


@pytest.mark.parametrize("background", [False, True])
async def test_it_runs_only_in_the_folder_that_was_asked_for(
    doubles: ToolDoubles, tmp_path: Path, background: bool
) -> None:
    for name in ("asked", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "way").symlink_to("asked")
    tool = Bash()
    args = tool.parse(
        {
            "command": "touch made",
            "description": "",
            "working_dir": "way",
            "run_in_background": background,
        }
    )
    assert await tool.required_permission(args, doubles.context) is not None
    (tmp_path / "way").unlink()
    (tmp_path / "way").symlink_to("other")

    with pytest.raises(ToolRefusal, match="path or the file has changed"):
        await tool.run(args, doubles.context)

    assert not list((tmp_path / "asked").iterdir())
    assert not list((tmp_path / "other").iterdir())


class WaitingJobs(NoJobs):
    """Starts a job that has not ended yet, and remembers what was killed."""

    def __init__(self) -> None:
        self.is_watched = asyncio.Event()
        self.killed: list[str] = []

    async def start(self, order: JobOrder) -> str:
        return "job-1"

    async def report(self, shell_id: str, *, wait_seconds: float = 0.0) -> JobReport:
        self.is_watched.set()
        return await asyncio.get_running_loop().create_future()

    async def kill(self, shell_id: str) -> JobReport:
        self.killed.append(shell_id)
        return JobReport(shell_id, "", "", "", "killed", None, "")


async def test_a_cancel_before_the_call_has_ended_ends_its_background_job(
    doubles: ToolDoubles,
) -> None:
    jobs = WaitingJobs()
    context = dataclasses.replace(doubles.context, jobs=jobs)
    args = Bash().parse({"command": "sleep 600", "description": "", "run_in_background": True})
    task = asyncio.ensure_future(Bash().run(args, context))
    async with asyncio.timeout(60):
        await jobs.is_watched.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert jobs.killed == ["job-1"]


async def test_it_asks_for_the_folder_where_links_lead(
    doubles: ToolDoubles, tmp_path: Path
) -> None:
    (tmp_path / "way").symlink_to("/usr")
    tool = Bash()
    args = tool.parse({"command": "touch x", "description": "", "working_dir": "way"})
    question = await tool.required_permission(args, doubles.context)
    assert question is not None
    assert question.path == str(Path("/usr").resolve())


async def test_it_tells_what_was_printed(doubles: ToolDoubles, tmp_path: Path) -> None:
    before = time.time_ns() // 1_000_000
    outcome = await call(doubles, "echo out; echo err >&2")
    assert outcome.content == "out\nerr"
    assert not outcome.is_error
    metadata = dict(outcome.metadata or {})
    assert before <= metadata.pop("start_time") <= metadata.pop("end_time")
    assert metadata == {
        "output": "out\nerr",
        "description": "d",
        "working_directory": str(tmp_path.resolve()),
    }


async def test_it_says_that_nothing_was_printed(doubles: ToolDoubles) -> None:
    outcome = await call(doubles, "true")
    assert outcome.content == "no output"
    assert outcome.metadata is not None
    assert outcome.metadata["output"] == ""


async def test_it_tells_an_exit_code_without_calling_it_an_error(doubles: ToolDoubles) -> None:
    outcome = await call(doubles, "echo out; exit 7")
    assert (outcome.content, outcome.is_error) == ("out\n\nExit code 7", False)
    assert (await call(doubles, "exit 7")).content == "no output\n\nExit code 7"


async def test_it_tells_a_timeout_with_the_output_so_far(doubles: ToolDoubles) -> None:
    outcome = await call(doubles, "echo before; sleep 600", timeout=5)
    assert outcome.content.startswith("before\n\nThe command was ended after 5 seconds")


async def test_it_keeps_head_and_tail_of_long_output(doubles: ToolDoubles) -> None:
    outcome = await call(doubles, "seq 1 200000")
    assert len(outcome.content) < 31_000
    assert outcome.content.startswith("1\n2\n")
    assert outcome.content.endswith("\n200000")
    assert "bytes left out" in outcome.content


async def test_it_makes_binary_output_readable(doubles: ToolDoubles) -> None:
    assert (await call(doubles, r"printf 'a\0b\377c'")).content == "a\ufffdb\ufffdc"


async def test_it_runs_where_it_is_asked(doubles: ToolDoubles, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert (await call(doubles, "pwd", working_dir="sub")).content == str(
        tmp_path.resolve() / "sub"
    )
    with pytest.raises(ToolRefusal, match="does not exist"):
        await call(doubles, "pwd", working_dir="nowhere")


async def test_it_gives_the_environment_and_opens_no_pager_or_editor(tmp_path: Path) -> None:
    doubles = make_tool_doubles(
        tmp_path, env={"MINE": "yes", "PAGER": "less", "CRUSH_SERVER_MARK": "m"}
    )
    command = 'echo "$MINE $PAGER $GIT_EDITOR $CRUSH_PROCESS_MARK $CRUSH_SERVER_MARK"'
    mark = doubles.context.process_mark
    assert (await call(doubles, command)).content == f"yes cat true {mark} m"


async def test_it_shows_nothing_of_the_servers_environment(
    doubles: ToolDoubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    SUPERVISOR.close()  # the next is started in this environment
    outcome = await call(doubles, "env; tr '\\0' '\\n' < /proc/$PPID/environ; echo read")
    assert outcome.content.endswith("read")
    assert "very-secret" not in outcome.content


async def test_it_runs_to_its_end_where_nothing_can_go_on_in_the_background(
    doubles: ToolDoubles,
) -> None:
    with pytest.raises(ToolRefusal, match="not available here"):
        await call(doubles, "true", run_in_background=True)
    outcome = await call(doubles, "sleep 1.2; echo hi", auto_background_after=1)
    assert outcome.content == "hi"
    assert outcome.metadata is not None
    assert "background" not in outcome.metadata


@pytest.mark.parametrize(
    "given",
    [{}, {"command": ""}, {"command": 1}, {"command": "x" * 100_001}, {"command": "a\0"}],
)
def test_it_refuses_arguments_that_do_not_fit(given: dict[str, object]) -> None:
    with pytest.raises(BadArguments, match="command"):
        Bash().parse(given)


async def test_it_tells_those_who_watch_at_most_ten_times_a_second(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    doubles = make_tool_doubles(
        tmp_path, progress=lambda text: told.append((time.monotonic(), text))
    )
    await call(doubles, "for i in $(seq 50); do echo $i; sleep 0.01; done")
    times = [at for at, _ in told]
    assert told[0][1].startswith("1\n")
    assert len(told) >= 3
    assert all(b - a > 0.09 for a, b in itertools.pairwise(times))


async def test_it_tells_nothing_after_its_end(tmp_path: Path) -> None:
    doubles = make_tool_doubles(tmp_path)
    await call(doubles, "echo a")
    told = len(doubles.progress)
    await asyncio.sleep(0.15)
    assert len(doubles.progress) == told


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the process group is ended")
async def test_its_cancel_ends_a_daemon_too(doubles: ToolDoubles, tmp_path: Path) -> None:
    word = Word()
    task = asyncio.ensure_future(call(doubles, f"{daemon_command(tmp_path, word)}; sleep 600"))
    await asyncio.to_thread(until, word.pids)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not word.pids()
