"""A project folder whose crush.json names the scripted model."""

import json
from pathlib import Path
from typing import Any

MODELS = ("fake-large", "fake-small")


def configuration(base_url: str, **more: Any) -> dict[str, Any]:
    """A crush.json: provider `fake`, its two models chosen. `more` adds or replaces top-level keys."""
    models = [
        {"id": name, "name": name, "context_window": 200_000, "default_max_tokens": 4096}
        for name in MODELS
    ]
    large, small = MODELS
    return {
        "providers": {
            "fake": {
                "name": "Fake",
                "type": "openai-compat",
                "base_url": base_url,
                "api_key": "sk-fake",
                "models": models,
            }
        },
        "models": {
            "large": {"provider": "fake", "model": large},
            "small": {"provider": "fake", "model": small},
        },
        **more,
    }


def write_whole(file: Path, text: str) -> None:
    """Replace a file that a server watches: it must not see the file empty or half written."""
    replacement = file.with_name(f"{file.name}.new")
    replacement.write_text(text)
    replacement.replace(file)


def make_project(folder: Path, base_url: str, **more: Any) -> Path:
    """Create the folder with its crush.json; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "crush.json").write_text(json.dumps(configuration(base_url, **more), indent=2))
    return folder
