"""Reads the Markdown beside a tool, once, at import: what the model is told of it."""

from __future__ import annotations

from pathlib import Path


def load_description(module_file: str) -> str:
    return Path(module_file).with_suffix(".md").read_text(encoding="utf-8").strip()
