"""Parses plain English requests for the offline model, by patterns.

Pure: returns the tool calls for a prompt. It guesses nothing: a prompt that matches no
pattern gets no plan, and the offline model then lists the requests that it understands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from posixpath import join

PROMPT_LIMIT = 20_000  # a longer prompt is not a plain request

POLITE = re.compile(
    r"^(?:please|kindly|now|then|ok(?:ay)?|hey|hi|(?:can|could|would|will) you|"
    r"i(?:'d like| want) you to|let's|go ahead and)\b[\s,:]*",
    re.IGNORECASE,
)
THANKS = re.compile(r"[\s,]{1,9}(?:please|thanks|thank you)[\s.!]{0,9}$", re.IGNORECASE)
QUOTED_END = re.compile(r"(?<=[`\"”])[.?!]$")
FENCE = re.compile(r"```[\w+-]*\n(.*?)\n?```", re.DOTALL)
QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»"}

# A file name: quoted, or one word.
NAME = r"(?:`[^`\n]+`|\"[^\"\n]+\"|'[^'\n]+'|“[^”\n]+”|[^\s`\"'“”]+)"


NO_NAMES = frozenset({"me", "it", "this", "that", "them", "us", "more", "all", "everything", "."})


@dataclass(frozen=True, slots=True)
class OfflineStep:
    """One tool call."""

    tool: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OfflinePlan:
    announcement: str
    steps: tuple[OfflineStep, ...]
    conclusion: str  # the text before the result's first lines


Reader = Callable[[re.Match[str], str], OfflinePlan | None]


def plan_for(prompt: str, working_dir: str = "") -> OfflinePlan | None:
    """Returns the plan, or ``None`` if no pattern matches. Makes paths absolute."""
    if len(prompt) > PROMPT_LIMIT:
        return None
    text = prompt.strip()
    for _ in range(5):
        text = POLITE.sub("", text)
    text = QUOTED_END.sub("", THANKS.sub("", text))
    for shape, read in SHAPES:
        if (match := shape.fullmatch(text)) and (plan := read(match, working_dir)):
            return plan
    return None


def _shape(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern with bounded white space, as a long run next to ``.+?`` is quadratic."""
    bounded = pattern.replace("NAME", NAME).replace(r"\s+", r"\s{1,9}").replace(r"\s*", r"\s{0,9}")
    return re.compile(bounded, re.IGNORECASE | re.DOTALL)


def _bare(text: str) -> str:
    """Removes quotes or a fence around the whole text."""
    text = text.strip()
    if fenced := FENCE.fullmatch(text):
        return fenced[1]
    if len(text) >= 2 and QUOTES.get(text[0]) == text[-1]:
        return text[1:-1]
    return text


def _path(raw: str | None, working_dir: str) -> str:
    path = _bare(raw or "")
    if raw and path == raw.strip():
        path = path.rstrip(".,;:?!") or path  # the punctuation of the sentence
    if path.lower() in ("here", "there", "it", "this", "this folder", "this directory"):
        path = ""
    if not path or path == ".":
        return working_dir or "."
    return join(working_dir, path) if working_dir else path


def _shown(path: str, working_dir: str) -> str:
    return path.removeprefix(f"{working_dir}/") if working_dir else path


def _list(match: re.Match[str], cwd: str) -> OfflinePlan:
    path = _path(match["path"], cwd)
    return OfflinePlan(
        f"I list the files in {_shown(path, cwd)}.",
        (OfflineStep("ls", {"path": path}),),
        "It contains:",
    )


def _glob(match: re.Match[str], cwd: str) -> OfflinePlan:
    pattern = _bare(match["pattern"])
    if not re.search(r"[*?\[{/]", pattern):
        pattern = f"**/*{pattern}*"
    arguments = {"pattern": pattern}
    if match["path"]:
        arguments["path"] = _path(match["path"], cwd)
    return OfflinePlan(
        f"I look for files like {pattern}.", (OfflineStep("glob", arguments),), "I found:"
    )


def _view(match: re.Match[str], cwd: str) -> OfflinePlan | None:
    if match["path"].lower().rstrip(".?!") in NO_NAMES:
        return None
    path = _path(match["path"], cwd)
    return OfflinePlan(
        f"I read {_shown(path, cwd)}.",
        (OfflineStep("view", {"file_path": path}),),
        "It begins like this:",
    )


def _search(match: re.Match[str], cwd: str) -> OfflinePlan:
    words = _bare(match["words"])
    # The tool takes a regular expression; users mean literal text unless they write "grep".
    pattern = words if (match["verb"] or "").lower() == "grep" else _literally(words)
    path = _path(match["path"], cwd)
    step = OfflineStep("grep", {"pattern": pattern, "path": path})
    return OfflinePlan(
        f"I search for “{words[:200]}” in {_shown(path, cwd)}.", (step,), "The search says:"
    )


def _literally(words: str) -> str:
    return re.sub(r"([\\.^$*+?{}\[\]()|])", r"\\\1", words)


def _write(match: re.Match[str], cwd: str) -> OfflinePlan:
    path = _path(match["path"], cwd)
    step = OfflineStep("write", {"file_path": path, "content": _bare(match["words"])})
    return OfflinePlan(f"I write {_shown(path, cwd)}.", (step,), f"{_shown(path, cwd)} is written:")


def _append(match: re.Match[str], cwd: str) -> OfflinePlan:
    path, words = _path(match["path"], cwd), _bare(match["words"])
    command = f"printf '%s\\n' {shlex.quote(words)} >> {shlex.quote(path)}"
    step = OfflineStep(
        "bash", {"command": command, "description": f"Append a line to {_shown(path, cwd)}"}
    )
    return OfflinePlan(
        f"I append to {_shown(path, cwd)}.",
        (step,),
        f"{_shown(path, cwd)} has the new line at its end:",
    )


def _edit(match: re.Match[str], cwd: str) -> OfflinePlan:
    path = _path(match["path"], cwd)
    change = {"old_string": _bare(match["old"]), "new_string": _bare(match["new"])}
    steps = (
        OfflineStep("view", {"file_path": path}),
        OfflineStep("edit", {"file_path": path, **change}),
    )
    return OfflinePlan(
        f"I read {_shown(path, cwd)} and change it.", steps, f"{_shown(path, cwd)} is changed:"
    )


def _run(match: re.Match[str], _cwd: str) -> OfflinePlan:
    command = _bare(match["command"])
    shown = command if len(command) <= 60 else command[:59] + "…"
    step = OfflineStep(
        "bash", {"command": command, "description": f"Run {' '.join(shown.split())}"}
    )
    return OfflinePlan(f"I run `{shown}`.", (step,), "It printed:")


_IN = r"(?:\s+(?:in|of|under|from|inside)\s+(?:the\s+)?(?:(?:file|folder|directory)\s+)?(?P<path>NAME))"
_FILES = r"(?:files?|folders?|director(?:y|ies)|contents?|everything|entries)"

# The first match wins, so narrower patterns come first.
SHAPES: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (_shape(r"(?:run|execute)\s*:?\s+(?:(?:the\s+)?(?:shell\s+)?command\s*:?\s+)?(?P<command>`[^`]+`|```.+```|(?!the\s).+)"), _run),
    (_shape(r"(?:edit\s+(?:NAME\s*[:,]\s*)?)?(?:replace|change)\s+(?P<old>NAME|.{1,300}?)\s+(?:with|by|to|into)\s+(?P<new>NAME|.{1,300}?)\s+in\s+(?:the\s+)?(?:file\s+)?(?P<path>NAME)"), _edit),
    (_shape(r"(?:edit\s+|in\s+)(?:the\s+)?(?:file\s+)?(?P<path>NAME)\s*[:,]?\s+(?:and\s+)?(?:replace|change)\s+(?P<old>NAME|.{1,300}?)\s+(?:with|by|to|into)\s+(?P<new>.+)"), _edit),
    (_shape(r"append\s+(?P<words>NAME|.+?)\s+to\s+(?:the\s+)?(?:file\s+)?(?P<path>NAME)"), _append),
    (_shape(r"(?:write|create|make|add)\s+(?:an?\s+|the\s+)?(?:new\s+)?(?:file\s+)?(?:named\s+|called\s+)?(?P<path>NAME)\s+(?:with|containing|that\s+(?:contains|says))\s+(?:the\s+)?(?:(?:text|contents?|words?|lines?)\b\s*)?:?\s*(?P<words>.+)"), _write),
    (_shape(r"(?:write|put|save)\s+(?P<words>NAME|.+?)\s+(?:to|into|in)\s+(?:an?\s+|the\s+)?(?:new\s+)?(?:file\s+)?(?:named\s+|called\s+)?(?P<path>NAME)"), _write),
    (_shape(r"(?:list|show(?:\s+me)?|print|display)\s+(?:the\s+)?contents?\s+of\s+(?:the\s+)?(?:file\s+)?(?P<path>[^\s`\"']*[^\s`\"'/.]\.\w+)\.?"), _view),
    (_shape(rf"(?:(?:list|show(?:\s+me)?|ls)\s+(?:all\s+)?(?:the\s+|my\s+)?{_FILES}|ls|list)(?:\s+here)?{_IN}?\s*[.?]?"), _list),
    (_shape(r"(?:what|which)(?:'s|\s+(?:is|are|files?\s+are(?:\s+there)?))\s+(?:here|there|in\s+(?:the\s+)?(?:(?:folder|directory)\s+)?(?P<path>NAME))\s*\??"), _list),
    (_shape(r"(?:ls|list)\s+(?:the\s+)?(?:folder\s+|directory\s+)?(?P<path>NAME)"), _list),
    (_shape(rf"(?:find|list|glob)\s+(?:all\s+)?(?:the\s+)?files?\s+(?:named|called|matching|like)\s+(?P<pattern>NAME){_IN}?"), _glob),
    (_shape(rf"(?:find|glob|list)\s+(?P<pattern>[^\s`\"']*[*?][^\s`\"']*)(?:\s+files?)?{_IN}?"), _glob),
    (_shape(rf"(?:(?P<verb>search|grep)|look\s+for|find(?=\s+{NAME}\s+\S+\s+\S+$))\s+(?:(?:for|the\s+text|the\s+word)\s+)*(?P<words>NAME|.+?){_IN}"), _search),
    (_shape(r"(?:(?P<verb>search|grep)|look\s+for|find(?=\s+NAME$))\s+(?:(?:for|the\s+text|the\s+word)\s+)*(?P<words>.+)(?P<path>)"), _search),
    (_shape(r"(?:read|view|cat|open|show(?:\s+me)?|print|display)\s+(?:the\s+)?(?:contents?\s+of\s+)?(?:the\s+)?(?:file\s+)?(?P<path>NAME)"), _view),
)  # fmt: skip
