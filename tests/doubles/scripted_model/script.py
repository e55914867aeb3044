"""What a user message tells the model to do. The commands are listed in the package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Json = dict[str, Any]
Call = tuple[str, str]
CALL_BLOCK = re.compile(
    r"\[\[(?:(?P<loop>loop)|tools?)=(?:(?P<rounds>\d+) )?(?P<name>[\w.-]+) (?P<args>\{.*?\})\]\]",
    re.DOTALL,
)
CALLS_BLOCK = re.compile(r"\[\[calls=(.*?\})\s*\]\]", re.DOTALL)
BLOCK = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)


@dataclass(frozen=True)
class Script:
    words: int = 20
    gap: float = 0.0
    first: float = 0.0
    rounds: int = 0  # of ``calls``; -1 is for ever
    calls: tuple[Call, ...] = ()
    before: int = 0
    reason: int = 0
    stamp: bool = False
    tag: str = ""
    usage: tuple[int, int, int] | None = None
    finish: str = ""
    gate: str = ""
    hold: int | None = None
    times: int | None = None
    key: str = ""
    status: int = 0
    retry_after: str = ""
    overflow: bool = False
    cut: int | None = None
    stall: int | None = None
    hang: bool = False
    silent: bool = False


TITLE = Script(words=3)


@lru_cache(maxsize=4096)
def parse_script(text: str) -> Script:
    calls: tuple[Call, ...] = ()
    rounds = 0
    if match := CALL_BLOCK.search(text):
        calls = ((match["name"], match["args"]),)
        rounds = -1 if match["loop"] else int(match["rounds"] or 1)
    elif match := CALLS_BLOCK.search(text):
        pairs = [item.strip().partition(" ") for item in match[1].split(";;")]
        calls, rounds = tuple((name, args.strip()) for name, _, args in pairs), 1
    rest = CALLS_BLOCK.sub("", CALL_BLOCK.sub("", text))
    said: dict[str, str] = {}
    for block in BLOCK.findall(rest):
        for item in block.split():
            name, _, value = item.partition("=")
            said[name] = value
    if "badargs" in said:
        calls, rounds = (("bash", '{"command": "ls'),), 1

    def number(name: str, default: int = 0) -> int:
        return int(said[name]) if said.get(name, "").isdigit() else default

    usage = tuple(int(item) for item in said["usage"].split(",")) if "usage" in said else None
    return Script(
        words=number("n", 20),
        gap=number("d") / 1000,
        first=number("first") / 1000,
        rounds=rounds,
        calls=calls,
        before=number("before"),
        reason=number("reason"),
        stamp="stamp" in said,
        tag=said.get("id", ""),
        usage=(*usage, 0, 0, 0)[:3] if usage else None,  # type: ignore[arg-type]
        finish=said.get("finish", ""),
        gate=said.get("gate", ""),
        hold=number("hold") if "hold" in said else None,
        times=number("times") if "times" in said else None,
        key=said.get("key", ""),
        status=number("status"),
        retry_after=said.get("retry_after", ""),
        overflow="overflow" in said,
        cut=number("cut") if "cut" in said else None,
        stall=number("stall") if "stall" in said else None,
        hang="hang" in said,
        silent="silent" in said,
    )
