"""Commands that use a server with TLS on another machine."""

import re
from pathlib import Path

from tests.acceptance.commands.conftest import Elsewhere
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import Typed, command
from tests.doubles.tcp_proxy import Mode


def test_doctor_checks_a_server_elsewhere(elsewhere: Elsewhere, project: MakeProject) -> None:
    elsewhere.login()
    path = str(project())
    done = command(elsewhere.env, "doctor", "--server", elsewhere.url, "--path", path, "--offline")
    assert done.code == 0, done.out
    assert "FAIL" not in done.out
    found = re.findall(r"^(ok|warn) +(.+?)  ", done.out, re.MULTILINE)
    levels = {what: level for level, what in found}
    assert levels["certificate"] == "warn"  # it is valid for two days
    for what in ("connection", "version", "clock", "token", "rights", "WebSocket", "large model"):
        assert levels[what] == "ok", done.out
    assert elsewhere.token not in done.out


def test_doctor_names_what_fails_between_here_and_a_server(elsewhere: Elsewhere) -> None:
    def doctor(*arguments: str, token: str = elsewhere.token) -> str:
        env = {**elsewhere.env, "CRUSH_TOKEN": token}
        done = command(env, "doctor", "--server", elsewhere.url, *arguments)
        assert done.code == 1, done.out
        assert "Traceback" not in done.err
        (line,) = (line for line in done.out.splitlines() if line.startswith("FAIL"))
        return line

    assert "--ca-file" in doctor()
    ours = ("--ca-file", elsewhere.certificate)
    assert "not accepted" in doctor(*ours, token="crush_wrong")
    elsewhere.network.set_mode(Mode.REFUSE)
    assert doctor(*ours).startswith("FAIL  connection")


def test_a_prompt_loses_and_repeats_nothing_when_its_network_fails(
    elsewhere: Elsewhere, project: MakeProject
) -> None:
    elsewhere.login()
    words = ("prompt", "[[n=300 d=10 id=w]]", "--wait", "--path", str(project()))
    with Typed(elsewhere.env, *words, "--server", elsewhere.url) as typed:
        for number in (20, 120, 200):
            typed.wait_for(f"w-{number}")
            elsewhere.network.set_mode(Mode.REFUSE)
            elsewhere.network.set_mode(Mode.PASS)
        assert typed.end() == 0, typed.shown
    assert re.findall(r"w-\d+", typed.shown) == [f"w-{number}" for number in range(300)]


def test_an_export_goes_to_the_file_in_pieces_and_whole(
    elsewhere: Elsewhere, project: MakeProject, tmp_path: Path
) -> None:
    elsewhere.login()
    here = ("--path", str(project()), "--server", elsewhere.url)
    command(elsewhere.env, "prompt", "[[n=3000 id=w]]", "--wait", *here)
    file = tmp_path / "session.jsonl"
    done = command(elsewhere.env, "export", "-o", str(file), *here)
    assert done.code == 0, done.err
    assert f"Wrote {file.stat().st_size:,} bytes" in done.err
    assert command(elsewhere.env, "export", *here).out == file.read_text()
    refused = command(elsewhere.env, "export", "zzzz", "-o", str(tmp_path / "no"), *here)
    assert refused.code == 1
    assert [each.name for each in tmp_path.glob("*no*")] == []
