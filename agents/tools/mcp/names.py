"""Names that every provider takes for the tools of servers, which call them as they like. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

from agents.tools.mcp.limits import TOOL_NAME_CHARS

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8


def tool_names(offered: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A name for each (server, tool), the same for the same set in whatever order.

    Where two would share one, both get a mark of their own: no server can take
    the name under which another's tool was allowed.
    """
    pairs = sorted(set(offered))
    plain = {pair: _plain(*pair) for pair in pairs}
    counts = Counter(name.lower() for name in plain.values())
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for pair in pairs:
        name = plain[pair]
        if counts[name.lower()] > 1 or len(name) > TOOL_NAME_CHARS:
            name = _marked(name, pair)
        if name.lower() not in taken:  # made to look like another's mark: left out
            taken.add(name.lower())
            names[pair] = name
    return names


def _plain(server: str, tool: str) -> str:
    return f"mcp_{_FOREIGN.sub('_', server)}_{_FOREIGN.sub('_', tool)}"


def _marked(name: str, pair: tuple[str, str]) -> str:
    digest = sha256("\0".join(pair).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: TOOL_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"
