"""``manage.py config migrate`` writes a file in the other format, and never over another."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def migrate(*arguments: object, home: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", "config", "migrate", *map(str, arguments)],
        cwd=ROOT,
        env={
            **os.environ,
            "HOME": str(home),
            "DJANGO_SETTINGS_MODULE": "crushsite.settings",  # the tests' own move the home
            "CRUSH_DATA_DIR": str(home / "d"),
            **env,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_json_to_shell_and_back(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "crush"
    folder.mkdir(parents=True)
    source = {"options": {"debug": True}, "permissions": {"allowed_tools": ["view"]}}
    (folder / "crush.json").write_text(json.dumps({**source, "fleet": {"r": {}}}))
    done = migrate(home=tmp_path)  # without a file: one's own
    assert done.returncode == 0, done.stderr
    assert "fleet cannot be expressed" in done.stderr
    assert (folder / "crushrc").stat().st_mode & 0o077 == 0
    again = migrate(folder / "crushrc", home=tmp_path)
    assert again.returncode == 1
    assert "exists already" in again.stderr
    printed = migrate(folder / "crushrc", "--output", "-", home=tmp_path)
    assert json.loads(printed.stdout) == source


def test_a_broken_file_is_not_converted(tmp_path: Path) -> None:
    (tmp_path / "crushrc").write_text("option debug\nmcp add\n")
    done = migrate(tmp_path / "crushrc", home=tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'crushrc'}:2:1" in done.stderr
    assert not (tmp_path / "crush.json").exists()
    assert "does not exist" in migrate(tmp_path / "nothing", home=tmp_path).stderr
