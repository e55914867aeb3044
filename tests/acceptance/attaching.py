"""Attachments of prompts, and providers whose models see them or do not."""

import base64
from typing import Any

from tests.acceptance.harness.project import configuration

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()


def attached(name: str, mime_type: str, content: bytes | str) -> dict[str, str]:
    if isinstance(content, bytes):
        content = base64.b64encode(content).decode()
    return {
        "file_path": f"/somewhere/{name}",
        "file_name": name,
        "mime_type": mime_type,
        "content": content,
    }


def with_sight(base_url: str, sees: bool) -> dict[str, Any]:
    """The provider of a project whose large model sees, or does not."""
    providers = configuration(base_url)["providers"]
    providers["fake"]["models"][0]["supports_attachments"] = sees
    return dict(providers)
