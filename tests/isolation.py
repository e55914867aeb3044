"""Keeps tests away from the person who runs them.

Gives the test process a home and a data folder of its own and hides real keys and service
addresses. Must run before Django's settings are imported, so it knows nothing of Django or pytest.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# What would let a test reach a real model, a real database, or the person's own configuration.
_HIDDEN = (
    "DATABASE_URL",
    "REDIS_URL",
    "CRUSH_GLOBAL_CONFIG",
    "CRUSH_GLOBAL_DATA",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "OLLAMA_HOST",
)
_HIDDEN_ENDINGS = ("_API_KEY", "_API_BASE", "_AUTH_TOKEN", "_ACCESS_TOKEN", "_SECRET_KEY")
_ROOT = "CRUSH_TESTS_ROOT"
_PICTURES = "CRUSH_TEST_SCREENSHOTS"


def scrubbed(environ: dict[str, str]) -> dict[str, str]:
    """The environment without anything that leads to the person's own accounts or data."""
    return {
        name: value
        for name, value in environ.items()
        if name not in _HIDDEN and not name.endswith(_HIDDEN_ENDINGS) and _foreign(name)
    }


def _foreign(name: str) -> bool:
    # A setting of ours in the person's shell must not steer a test either.
    return not name.startswith("CRUSH_") or name in {_ROOT, _PICTURES}


def isolate() -> Path:
    """Point this process at empty folders. Idempotent in a process; xdist's workers get their own."""
    done = _folder_of_this_process()
    if done is not None:
        return done
    root = os.environ.get(_ROOT)
    if root is None or not Path(root).is_dir():
        root = tempfile.mkdtemp(prefix="crush-tests-")
        # Only the process that made the root removes it: workers inherit its name and end before it.
        atexit.register(shutil.rmtree, root, ignore_errors=True)
    own = Path(root) / str(os.getpid())
    # Pages expect the folder of the files that they load, empty in tests without a server.
    for folder in (own / "home", own / "data" / "static", own / "runtime"):
        folder.mkdir(parents=True, mode=0o700)
    kept = scrubbed(dict(os.environ))
    for name in set(os.environ) - set(kept):
        del os.environ[name]
    os.environ.update(
        {
            _ROOT: root,
            "HOME": str(own / "home"),
            "XDG_RUNTIME_DIR": str(own / "runtime"),
            "CRUSH_DATA_DIR": str(own / "data"),
            "CRUSH_DISABLE_OLLAMA": "1",
            # Most tests are about other things than whether their folder is trusted.
            "CRUSH_TRUST": "all",
        }
    )
    return own


def _folder_of_this_process() -> Path | None:
    root = os.environ.get(_ROOT)
    if root is None:
        return None
    own = Path(root) / str(os.getpid())
    return own if own.is_dir() else None
