"""Keys that nobody reads, each with the key that was probably meant. Pure.

They stay without effect, so a misspelled one changes nothing, in silence: a person has
to hear of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from agents.config.validation import Each, Fields, Items, Leaf, Misfit, Spec

KEYS_LIMIT = 50
NAME_LIMIT = 60
# How other programs call a section or a key of ours.
_ELSEWHERE = {
    "mcpservers": "mcp",
    "languageservers": "lsp",
    "baseurl": "base_url",
    "endpoint": "base_url",
    "key": "api_key",
    "token": "api_key",
    "headers": "extra_headers",
    "body": "extra_body",
    "contextlength": "context_window",
    "environment": "env",
    "cmd": "command",
    "allow": "allowed_tools",
    "instructions": "context_paths",
}


def unknown_keys(tree: dict[str, Any], spec: Fields) -> list[Misfit]:
    found = _unknown(tree, spec, "")
    return [misfit for misfit, _ in zip(found, range(KEYS_LIMIT), strict=False)]


def _unknown(value: Any, spec: Spec, key: str) -> Iterator[Misfit]:
    match spec:
        case Fields() if isinstance(value, dict):
            for name, item in value.items():
                below = spec.known.get(name, spec.others)
                here = f"{key}.{name}" if key else name
                if below is not None:
                    yield from _unknown(item, below, here)
                elif not _is_note(name):
                    yield _misfit(name, key, spec.known)
        case Each() if isinstance(value, dict):
            for name, item in value.items():
                yield from _unknown(item, spec.spec, f"{key}.{name}")
        case Items() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _unknown(item, spec.spec, f"{key}[{index}]")
        case Leaf() | Fields() | Each() | Items():
            return


def _misfit(name: str, key: str, known: Iterable[str]) -> Misfit:
    is_plain = len(name) <= NAME_LIMIT and name.isprintable()
    here = f"{key}.{name if is_plain else '…'}".lstrip(".")
    meant = _meant(name, list(known)) if is_plain else ""
    hint = f"; did you mean {meant}?" if meant else ""
    return Misfit(here, f"is not known and has no effect{hint}")


def _meant(name: str, known: list[str]) -> str:
    by_form = {_form(one): one for one in known}
    elsewhere = _ELSEWHERE.get(_form(name), "")
    if elsewhere in known:
        return elsewhere
    close = difflib.get_close_matches(_form(name), by_form, n=1, cutoff=0.75)
    return by_form[close[0]] if close else ""


def _form(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _is_note(name: str) -> bool:
    """People write comments where JSON has none."""
    return name.startswith(("_", "$", "#", "//")) or name in {"", "comment"}
