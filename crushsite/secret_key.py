"""Django's signing key: from the environment, else a file of mode 0600 made once."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def read_or_create_secret_key(folder: Path) -> str:
    """Safe for several processes at once: whoever links its file first wins."""
    given = os.environ.get("CRUSH_SECRET_KEY", "")
    if given:
        return given
    path = folder / "django.key"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mine = folder / f".django.key.{os.getpid()}.{secrets.token_hex(4)}"
        descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(64))
        try:
            os.link(mine, path)
        except FileExistsError:
            pass
        finally:
            mine.unlink()
    return path.read_text()
