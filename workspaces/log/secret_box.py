"""The server's own secret box, by the key in its data folder."""

from __future__ import annotations

from functools import cache

from django.conf import settings

from workspaces.log.secrets import SecretBox


@cache
def box() -> SecretBox:
    return SecretBox(settings.DATA_DIR / "secret.key")
