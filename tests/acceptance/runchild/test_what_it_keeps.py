"""What a child stores, whom it tells its secrets, and what it leaves behind."""

import json
import os
import sqlite3
import sys
import uuid
from pathlib import Path

import psutil

from crushsite.child import main as child_main
from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.runchild.turns import KEY, TOKEN, Spawn, bash, last_request
from tests.integration.fleet.children import dialled


async def test_the_parents_key_and_model_are_used_and_never_shown(
    spawn: Spawn, model: ScriptedModel, tmp_path: Path
) -> None:
    child, mark = spawn(storage_dir=str(tmp_path / "storage"), capabilities={}), uuid.uuid4().hex
    async with dialled(await child.endpoint()) as parent:
        await parent.run(f"{mark} " + bash("env; cat /proc/$PPID/environ | tr '\\0' '\\n'"))
        frames = await parent.frames()
        request = last_request(model, mark)
        assert request["body"]["model"] == "one"
        assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(frames)
    assert TOKEN not in json.dumps(frames)
    assert await child.ended() == 0
    assert KEY not in child.said()
    for path in (tmp_path / "storage").rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


async def test_the_database_lies_in_the_storage_folder_and_no_servers_is_touched(
    spawn: Spawn, tmp_path: Path, work: Path
) -> None:
    child = spawn(storage_dir=str(tmp_path / "storage"))
    async with dialled(await child.endpoint()) as parent:
        assert (await parent.outcome("[[n=1]]"))["status"] == "completed"
    assert await child.ended() == 0
    (stored,) = (tmp_path / "storage").rglob("*.sqlite3")
    assert stored.stat().st_mode & 0o077 == 0
    with sqlite3.connect(stored) as rows:
        assert rows.execute("SELECT count(*) FROM workspaces_session").fetchone() == (1,)
    rows.close()
    assert not (tmp_path / "servers-data").exists()
    assert list(work.iterdir()) == []


async def test_without_a_storage_folder_nothing_is_left(spawn: Spawn, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    os.environ["TMPDIR"] = str(temporary)
    try:
        child = spawn()
    finally:
        del os.environ["TMPDIR"]
    async with dialled(await child.endpoint()) as parent:
        assert (await parent.outcome("[[n=1]]"))["status"] == "completed"
        assert list(temporary.glob("crush-child-*/server.sqlite3"))
    assert await child.ended() == 0
    assert list(temporary.iterdir()) == []


async def test_many_runs_of_one_child_leave_no_descriptors(spawn: Spawn) -> None:
    child = spawn(reusable=True)
    endpoint = await child.endpoint()

    async def runs(count: int) -> None:
        for _ in range(count):
            async with dialled(endpoint) as parent:
                end = await parent.outcome("[[n=3]]")
                assert end["status"] == "completed", end

    await runs(10)
    process = psutil.Process(child.pid)
    for _ in range(3):  # threads that read come one by one, each with its connection
        before = process.num_fds()
        await runs(40)
        if process.num_fds() <= before + 3:
            break
    assert process.num_fds() <= before + 3


def test_the_tables_made_from_the_models_are_those_of_the_migrations(tmp_path: Path) -> None:
    import subprocess

    def schema(name: str, code: str) -> set[str]:
        folder = tmp_path / name
        folder.mkdir()
        env = server_environment(tmp_path / "home", folder, {})
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            cwd=ROOT,
            env=env,
            capture_output=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stderr.decode()
        rows = sqlite3.connect(folder / child_main.DATABASE)
        try:
            found = rows.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            own_prefixes = ("workspaces_", "permissions_", "agents_")
            return {
                _columns(sql)
                for name, sql in found
                # Nobody searches in a child: its texts have no index.
                if name.startswith(own_prefixes)
                and not name.startswith("workspaces_search_")
                and name != "workspaces_search"
            }
        finally:
            rows.close()

    quick = schema(
        "quick",
        "import sys; from pathlib import Path; from crushsite.child.main import set_up_in;"
        " set_up_in(Path(sys.argv[1]))",
    )
    migrated = schema(
        "migrated",
        "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'crushsite.settings';"
        " django.setup(); from django.core.management import call_command;"
        " call_command('migrate', verbosity=0)",
    )
    assert quick == migrated


def _columns(sql: str) -> str:
    """A table's parts in alphabetical order: migrations add columns behind the others."""
    head, _, body = sql.partition("(")
    parts, depth, part = [], 0, ""
    for letter in body:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return head + "|".join(sorted([*parts, part.strip().removesuffix(")")]))
