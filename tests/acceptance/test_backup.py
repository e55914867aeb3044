"""The commands for backup and restore as docs/operations.md has them, with a server at work."""

import re
import stat
import subprocess
from pathlib import Path

from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.shapes import Server


def documented(section: str) -> str:
    text = (ROOT / "docs" / "operations.md").read_text().partition(f"### {section}\n")[2]
    found = re.search(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def carry_out(section: str, *, data: Path, to: Path) -> None:
    script = f"set -eu\ndata='{data}' to='{to}'\n{documented(section)}"
    subprocess.run(["sh", "-c", script], check=True, timeout=180)


def test_a_restored_backup_has_the_same_content(
    embedded_server: Server, project: MakeProject, tmp_path: Path
) -> None:
    env, path = embedded_server.env, str(project())
    assert command(env, "prompt", "[[n=3]]", "--path", path, "--wait").code == 0
    (tmp_path / "backup").mkdir()
    carry_out("Backup", data=Path(env["CRUSH_DATA_DIR"]), to=tmp_path / "backup")
    before = command(env, "sessions", "--json").out

    restored = tmp_path / "restored"
    carry_out("Restore", data=restored, to=tmp_path / "backup")
    there = {**env, "CRUSH_DATA_DIR": str(restored)}
    assert command(there, "sessions", "--json").out == before
    done = command(there, "prompt", "[[n=2 id=w]]", "--path", path, "--wait")
    assert (done.code, done.out.split()) == (0, ["w-0", "w-1"]), done.err
    assert stat.S_IMODE(restored.stat().st_mode) == 0o700
    for file in restored.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
