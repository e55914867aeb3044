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
    aside: str = ""
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
    options: dict[str, str] = {}
    for block in BLOCK.findall(rest):
        for item in block.split():
            name, _, value = item.partition("=")
            options[name] = value
    if "badargs" in options:
        calls, rounds = (("bash", '{"command": "ls'),), 1

    def number(name: str, default: int = 0) -> int:
        return int(options[name]) if options.get(name, "").isdigit() else default

    usage = tuple(int(item) for item in options["usage"].split(",")) if "usage" in options else None
    return Script(
        words=number("n", 20),
        gap=number("d") / 1000,
        first=number("first") / 1000,
        rounds=rounds,
        calls=calls,
        before=number("before"),
        reason=number("reason"),
        stamp="stamp" in options,
        tag=options.get("id", ""),
        usage=(*usage, 0, 0, 0)[:3] if usage else None,  # type: ignore[arg-type]
        finish=options.get("finish", ""),
        gate=options.get("gate", ""),
        hold=number("hold") if "hold" in options else None,
        aside=options.get("aside", ""),
        times=number("times") if "times" in options else None,
        key=options.get("key", ""),
        status=number("status"),
        retry_after=options.get("retry_after", ""),
        overflow="overflow" in options,
        cut=number("cut") if "cut" in options else None,
        stall=number("stall") if "stall" in options else None,
        hang="hang" in options,
        silent="silent" in options,
    )
