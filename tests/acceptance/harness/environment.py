"""The environment of a server under test, and how a manage.py command is started in it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.acceptance.harness.processes import Process
from tests.isolation import scrubbed

ROOT = Path(__file__).resolve().parents[3]


def server_environment(home: Path, data_dir: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """A person's shell without keys and addresses, with an empty home; `extra` has the last word."""
    env = scrubbed(dict(os.environ))
    for name in (
        "DJANGO_SETTINGS_MODULE",
        "PYTHONWARNINGS",
        "PYTEST_CURRENT_TEST",
        "PYTEST_XDIST_WORKER",
    ):
        env.pop(name, None)
    home.mkdir(parents=True, exist_ok=True)
    return {
        **env,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "CRUSH_DATA_DIR": str(data_dir),
        "CRUSH_DISABLE_OLLAMA": "1",
        # Most tests are about other things than whether their folder is trusted.
        "CRUSH_TRUST": "all",
        # Lines must be in the log when they are printed, also when the process is killed next.
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        # Tests stop servers in the middle of long replies.
        "CRUSH_DRAIN": "2",
        **extra,
    }


def manage(name: str, arguments: list[str], *, env: Mapping[str, str], log: Path) -> Process:
    """`manage.py` with these arguments, not started yet."""
    return Process(name, [sys.executable, "manage.py", *arguments], env=env, cwd=ROOT, log=log)
