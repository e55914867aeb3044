"""The client as it is installed on another machine: its wheel alone, without the server."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.shapes import Server

USE = """
import asyncio, sys
import crushclient
from crushclient import Client, NewText

async def main(url, folder):
    async with Client(url) as client:
        workspace = await client.open_workspace(folder)
        path = f"/v1/workspaces/{workspace.id}/sessions"
        created = await client.request("POST", path, body={"title": ""})
        async with client.follow(
            workspace.id, created["id"], client_id=workspace.client_id, path=workspace.path
        ) as session:
            run = await session.finish(await session.prompt("[[n=3 id=word]]"))
            print(run["outcome"], session.messages[-1].text)
    assert not [name for name in sys.modules if name.split(".")[0] in ("django", "crushsite")]
    assert "site-packages" in crushclient.__file__, crushclient.__file__

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the client, aiohttp and orjson; no checkout, no Django."""
    folder = tmp_path_factory.mktemp("client")
    source, venv, wheels = folder / "crushclient", folder / "venv", folder / "wheels"
    ignored = shutil.ignore_patterns("*.pyc", "build", "*.egg-info")
    shutil.copytree(ROOT / "crushclient", source, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    run([*pip, "wheel", *offline, "--no-build-isolation", "-w", wheels, source])
    shutil.rmtree(source)
    run([sys.executable, "-m", "venv", "--without-pip", venv])
    (wheel,) = wheels.glob("crushclient-*.whl")
    run([*pip, "--python", venv / "bin" / "python", "install", *offline, wheel])
    installed = Path(sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)}))
    here = Path(sysconfig.get_path("purelib"))
    # What `pip install` would fetch: the two libraries, and what aiohttp needs.
    for name in LIBRARIES:
        (installed / name).symlink_to(here / name)
    return venv / "bin" / "python"


LIBRARIES = (
    "aiohttp",
    "aiohappyeyeballs",
    "aiosignal",
    "attr",
    "attrs",
    "frozenlist",
    "idna",
    "multidict",
    "orjson",
    "propcache",
    "typing_extensions.py",
    "yarl",
)


def run(command: list[object], **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, check=False, cwd="/", timeout=280, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_prompts_with_the_wheel_alone(
    python: Path, embedded_server: Server, project: object
) -> None:
    folder = project()  # type: ignore[operator]
    printed = run([python, "-c", USE, embedded_server.url, folder])
    assert printed.split() == ["completed", "word-0", "word-1", "word-2"]


def test_the_wheel_says_that_it_is_typed(python: Path) -> None:
    (installed,) = (python.parents[1] / "lib").glob("python*/site-packages/crushclient")
    assert (installed / "py.typed").exists()
    source = ROOT / "crushclient"
    assert {path.relative_to(installed) for path in installed.rglob("*.py")} == {
        path.relative_to(source) for path in source.rglob("*.py")
    }
