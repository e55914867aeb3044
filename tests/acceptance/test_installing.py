"""The program as it is installed: built as a wheel, in an environment of its own, outside of a checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import django
import pytest
from django.core.management import find_commands

from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.processes import Process
from workspaces.api.version import VERSION

DJANGOS = ("changepassword", "migrate")  # those that users need
PACKAGES = (
    "agents",
    "crushclient",
    "crushsite",
    "notifications",
    "people",
    "permissions",
    "workspaces",
)
OWN = sorted(
    name.replace("_", "-")
    for app in (*PACKAGES, "crushsite/client")
    for name in find_commands(str(ROOT / app / "management"))
    if name != "runserver"  # of a checkout
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`crush-server` in a fresh environment, which sees this one's libraries but no checkout."""
    if int(version("setuptools").split(".")[0]) < 77:
        # Where everything is under our control, an old environment is our own mistake.
        (pytest.fail if os.environ.get("CI") else pytest.skip)("setuptools is older than 77")
    folder = tmp_path_factory.mktemp("installed")
    # A copy: setuptools leaves its work beside the sources, and would take up old work there.
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("*.pyc"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    venv = folder / "venv"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    wheels = ["wheel", *offline, "--no-build-isolation", "-w", folder / "wheels", source]
    _run([*pip, *wheels])
    _run([sys.executable, "-m", "venv", "--without-pip", venv])
    (wheel,) = (folder / "wheels").iterdir()
    _run([*pip, "--python", venv / "bin" / "python", "install", *offline, wheel])
    libraries = Path(django.__file__).parents[1]
    installed = sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)})
    (Path(installed) / "libraries.pth").write_text(f"{libraries}\n")
    shutil.rmtree(source)
    return venv / "bin" / "crush-server"


def _run(command: list[object]) -> None:
    subprocess.run([str(word) for word in command], check=True, cwd="/", timeout=280)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return server_environment(tmp_path / "home", tmp_path / "data", {})


def run(program: Path, env: dict[str, str], *arguments: str, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [program, *arguments], env=env, cwd=cwd, capture_output=True, text=True, timeout=180
    )
    return done.returncode, done.stdout, done.stderr


def test_every_file_of_the_packages_is_installed(program: Path) -> None:
    (libraries,) = (program.parents[1] / "lib").glob("python*/site-packages")
    for package in PACKAGES:
        files = {path.relative_to(ROOT) for path in (ROOT / package).rglob("*") if path.is_file()}
        missing = {
            path for path in files if path.suffix != ".pyc" and not (libraries / path).exists()
        }
        assert missing == set()


def test_it_has_only_its_own_commands(program: Path, env: dict[str, str], tmp_path: Path) -> None:
    assert run(program, env, "--version", cwd=tmp_path) == (0, f"crush-server {VERSION}\n", "")
    code, listed, _ = run(program, env, "help", cwd=tmp_path)
    assert code == 0
    shown = {
        line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "
    }
    assert shown == {*OWN, *DJANGOS}
    for foreign in ("shell", "runserver", "flush", "generateschema"):
        code, out, err = run(program, env, foreign, cwd=tmp_path)
        assert (code, out) == (2, "")
        assert f"there is no command {foreign!r}" in err


def test_it_runs_from_the_wheel(program: Path, env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    # Python must take nothing from the folder in which somebody types.
    (folder / "crushsite.py").write_text("raise SystemExit('imported from the working directory')")
    code, out, err = run(
        program, env, "prompt", "run `echo $((6*7))`", "--wait", "--yolo", cwd=folder
    )
    assert code == 0, err
    assert "42" in out
    code, out, err = run(program, env, "prompt", "find files named *.py", "--wait", cwd=folder)
    assert (code, "crushsite.py" in out) == (0, True), err


@pytest.fixture
def server(program: Path, env: dict[str, str], tmp_path: Path) -> Iterator[str]:
    arguments = ["serve", "--host", "tcp://127.0.0.1:0"]
    process = Process(
        "serve", [str(program), *arguments], env=env, cwd=tmp_path, log=tmp_path / "log"
    )
    process.start()
    try:
        yield process.wait_for_line("Serving on", 90).split()[2]
    finally:
        process.stop()


def test_its_server_has_its_pages(server: str) -> None:
    for path in ("/v1/health", "/admin/login/", "/static/admin/css/base.css"):
        with urllib.request.urlopen(f"{server}{path}", timeout=60) as answer:
            assert answer.status == 200
