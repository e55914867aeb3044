"""Language servers that crash, hang, lie and shout: whatever they do, work goes on."""

import asyncio
import time

import psutil
import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.lsp.states import LanguageServerStatus
from tests.integration.lsp.conftest import MakeBench, double

QUICKLY = [
    "crash",
    "garbage",
    "huge-header",
    "huge-body",
    "negative-length",
    "bad-json",
    "crash-on-open",
]


@pytest.mark.parametrize("mode", QUICKLY)
async def test_one_that_fails_at_once_is_tried_a_few_times_and_left_alone(
    mode: str, make_bench: MakeBench
) -> None:
    bench = make_bench(double(mode), wait_seconds=1.0)
    path = bench.write("a.py", "bad\n")
    assert await bench.languages.after_change(str(path)) == ""
    if mode == "crash-on-open":
        return
    await bench.until(*[LanguageServerStatus.STARTING, LanguageServerStatus.ERROR] * 5)
    last = bench.told[-1]
    assert last.error.endswith("It is not restarted automatically; lsp_restart starts it again.")
    assert "Welcome" not in last.error
    assert last.pid == 0
    count = len(bench.told)
    assert await bench.languages.after_change(str(path)) == ""
    assert len(bench.told) == count  # touching files starts it no more
    with pytest.raises(ToolRefusal, match="is not ready"):
        await bench.call("lsp_symbols", file_path="a.py")


@pytest.mark.parametrize("mode", ["hang", "deaf", "silent"])
async def test_one_that_says_nothing_is_waited_for_less_and_less(
    mode: str, make_bench: MakeBench
) -> None:
    bench = make_bench(double(mode), wait_seconds=3.0)
    path = bench.write("a.py", "bad\n")
    times = []
    for number in range(3):
        path.write_text(f"bad = {number}\n")
        began = time.monotonic()
        assert await bench.languages.after_change(str(path)) == ""
        times.append(time.monotonic() - began)
    assert times[0] >= 3.0
    assert times[-1] < 3.0  # it was late twice: nobody waits the whole time any more


async def test_one_that_does_not_start_in_its_time_is_ended(make_bench: MakeBench) -> None:
    bench = make_bench(double("hang", timeout_seconds=1.0))
    path = bench.write("a.py", "bad\n")
    bench.languages.touch(str(path))
    told = await bench.until(LanguageServerStatus.STARTING, LanguageServerStatus.ERROR)
    assert told[-1].error == "It did not start within 1 s."


async def test_one_that_lies_is_not_believed(make_bench: MakeBench) -> None:
    bench = make_bench(double("lies"))
    path = bench.write("a.py", "name = 1\n")
    said = await bench.languages.after_change(str(path))
    assert said.count("Error:") == 1  # the only one with the shape of one
    for tool, more in (
        ("lsp_references", {}),
        ("lsp_definition", {}),
        ("lsp_rename", {"new_name": "other"}),
    ):
        with pytest.raises(ToolRefusal, match="is malformed"):
            await bench.call(tool, symbol="name", path="a.py", **more)
    with pytest.raises(ToolRefusal, match="is malformed"):
        await bench.call("lsp_symbols", file_path="a.py")
    assert path.read_text() == "name = 1\n"


@pytest.mark.parametrize(
    ("new_name", "sentence"),
    [
        ("outside", "outside of the workspace"),
        ("overlap", "overlap"),
        ("delete_files", "would move or delete files"),
    ],
)
async def test_evil_edits_change_nothing(
    new_name: str, sentence: str, make_bench: MakeBench
) -> None:
    bench = make_bench(double("evil-edits"))
    path = bench.write("a.py", "name_of_it = 1\n")
    with pytest.raises(ToolRefusal, match=sentence):
        await bench.call("lsp_rename", symbol="name_of_it", new_name=new_name)
    assert path.read_text() == "name_of_it = 1\n"
    assert bench.asked == []


async def test_edits_for_an_older_text_are_refused(make_bench: MakeBench) -> None:
    bench = make_bench(double("evil-edits"))
    path = bench.write("a.py", "# first\nname = 1\n")
    with pytest.raises(ToolRefusal, match=r"has an outdated text of"):
        await bench.call("lsp_rename", symbol="name", new_name="other")
    assert path.read_text() == "# first\nname = 1\n"


async def test_too_many_diagnostics_are_cut(make_bench: MakeBench) -> None:
    bench = make_bench(double("many"))
    path = bench.write("a.py", "bad\n")
    said = await bench.languages.after_change(str(path))
    assert said.count("Error:") == 20
    assert "... and 480 more" in said


@pytest.mark.parametrize("mode", ["publish", "pull", "no-version"])
async def test_both_models_of_diagnostics_tell_of_the_change_itself(
    mode: str, make_bench: MakeBench
) -> None:
    bench = make_bench(double(mode))
    path = bench.write("a.py", "good\n")
    assert await bench.languages.after_change(str(path)) == ""
    path.write_text("good\nbad\n")
    said = await bench.languages.after_change(str(path))
    assert said == (
        "<file_diagnostics>\nError: a.py:2:1 [double] line 2 is bad\n</file_diagnostics>"
    )
    path.write_text("good\n")
    assert await bench.languages.after_change(str(path)) == ""


async def test_a_file_that_is_broken_elsewhere_is_told_too(make_bench: MakeBench) -> None:
    bench = make_bench(double("publish"))
    first, second = bench.write("a.py", "bad\n"), bench.write("b.py", "fine\n")
    await bench.languages.after_change(str(first))
    said = await bench.languages.after_change(str(second))
    assert said.startswith("<project_diagnostics>\nError: a.py:1:1")
    assert "a.py" in (await bench.call("lsp_diagnostics")).content
    first.unlink()
    checked = await bench.call("lsp_diagnostics", file_path="b.py")
    assert "b.py: 0 errors, 0 warnings" in checked.content


async def test_one_that_crashes_while_working_comes_back_with_its_files(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(double("crash-on-bad"), wait_seconds=1.0)
    path = bench.write("a.py", "good\n")
    await bench.languages.after_change(str(path))
    await bench.until(LanguageServerStatus.READY)
    (ready,) = [status for status in bench.told if status.state is LanguageServerStatus.READY]
    path.write_text("bad\n")
    assert await bench.languages.after_change(str(path)) == ""
    path.write_text("good\n")
    told = await bench.until(
        LanguageServerStatus.READY,
        LanguageServerStatus.ERROR,
        LanguageServerStatus.STARTING,
        LanguageServerStatus.READY,
    )
    assert told[-1].pid not in {0, ready.pid}
    (error,) = {status.error for status in told if status.error}
    assert error == "It has ended: it has closed its output."


async def test_stopping_ends_all_that_a_server_started(make_bench: MakeBench) -> None:
    bench = make_bench(double("child"))
    path = bench.write("a.py", "good\n")
    await bench.languages.after_change(str(path))
    ready = next(status for status in bench.told if status.state is LanguageServerStatus.READY)
    children = _children(ready.pid)
    assert children
    await bench.servers.close()
    assert not any(psutil.pid_exists(pid) for pid in [ready.pid, *children])
    assert bench.told[-1].state is LanguageServerStatus.STOPPED
    assert await bench.languages.after_change(str(path)) == ""  # closed for good
    assert bench.told[-1].state is LanguageServerStatus.STOPPED


async def test_a_cancelled_question_leaves_the_server_as_it_is(make_bench: MakeBench) -> None:
    bench = make_bench(double("silent"))
    path = bench.write("a.py", "bad\n")
    asking = asyncio.ensure_future(bench.languages.after_change(str(path)))
    await bench.until(LanguageServerStatus.READY)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (server,) = bench.servers.servers()
    assert server.state is LanguageServerStatus.READY


async def test_configuration_is_followed(make_bench: MakeBench) -> None:
    bench = make_bench(double("publish"))
    path = bench.write("a.py", "bad\n")
    await bench.languages.after_change(str(path))
    bench.configured["double"] = double("publish", is_disabled=True)
    await bench.servers.refresh(at_once=True)
    await bench.until(
        LanguageServerStatus.READY, LanguageServerStatus.STOPPED, LanguageServerStatus.DISABLED
    )
    assert await bench.languages.after_change(str(path)) == ""
    bench.configured["double"] = double("publish")
    await bench.servers.refresh(at_once=True)
    assert "line 1 is bad" in await bench.languages.after_change(str(path))
    del bench.configured["double"]
    await bench.servers.refresh(at_once=True)
    assert bench.forgotten == ["double"]
    assert not bench.servers.could_start


async def test_one_that_cannot_be_started_says_why(make_bench: MakeBench) -> None:
    bench = make_bench(double("publish", fault="env.TOKEN: $TOKEN is not set"))
    path = bench.write("a.py", "bad\n")
    assert await bench.languages.after_change(str(path)) == ""
    assert await bench.languages.after_change(str(path)) == ""
    (status,) = bench.told
    assert (status.state, status.error) == (
        LanguageServerStatus.ERROR,
        "env.TOKEN: $TOKEN is not set",
    )


async def test_one_that_repeats_its_secrets_is_not_quoted_with_them(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(double("tells-secrets", env={"SECRET_TOKEN": "sk-very-secret"}))
    bench.languages.touch(str(bench.write("a.py", "bad\n")))
    told = await bench.until(LanguageServerStatus.STARTING, LanguageServerStatus.ERROR)
    assert told[-1].error == "The language server returned an error: the token ******** is wrong"
    assert "sk-very-secret" not in caplog.text + repr(bench.servers.servers()[0].plan)


def _children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]
