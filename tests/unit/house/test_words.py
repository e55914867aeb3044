"""The code uses the words of its trade: each word of the old dialect may only become rarer.

Counts words in identifiers, comments, docstrings and texts. `python -m tests.unit.house.test_words`
lists the places.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("agents", "crushclient", "crushsite", "permissions", "workspaces")

# Each word of the dialect, and how often it may still occur. Lower a number with each rename.
LIMITS = {
    # Verbs of speech for data. Better: notify, report, request, receive, contain, text, message.
    "told": 0,
    "tell": 0,
    "tells": 0,
    "telling": 0,
    "ask": 0,
    "asked": 4,
    "asking": 1,
    "asks": 1,
    "say": 0,
    "says": 1,
    "said": 0,
    "saying": 0,
    "hear": 0,
    "hears": 0,
    "heard": 0,
    "hearing": 0,
    "know": 1,
    "knows": 0,
    "learn": 0,
    "learns": 0,
    "learnt": 0,
    "speak": 0,
    "speaks": 0,
    "speaking": 0,
    "spoken": 0,
    # Metaphors. Better: run context, listener, registration, supervisor, cache, delegation.
    "desk": 0,
    "door": 0,
    "errand": 0,
    "errands": 0,
    "keeper": 0,
    "ledger": 0,
    "milestones": 0,
    "presence": 0,
    "shelf": 0,
    "stranger": 0,
    "strangers": 0,
    # Better: check, run setup, status, validate, idle, expensive, fix, throttle, next to.
    "beside": 0,
    "brief": 0,
    "briefing": 0,
    "dear": 0,
    "erase": 0,
    "erasing": 0,
    "fitting": 1,
    "growing": 0,
    "judge": 0,
    "judged": 0,
    "judging": 0,
    "mended": 0,
    "pace": 0,
    "promised": 0,
    "quiet": 0,
    "sense": 0,
    "silence": 0,
    "standing": 0,
    # Pronouns for people and things that have a name.
    "anybody": 0,
    "everybody": 0,
    "nobody": 1,
    "somebody": 0,
    "whoever": 0,
    # Phrases.
    "any more": 0,
    "let go": 0,
    "sent for": 1,
}
# What may stay, with the reason.
EXCEPTIONS = {
    r"\basked_at\b|\balways_asks\b": "columns, and so fields of requests and questions",
    r"\bquestion\.asked\b|\bQUESTION_ASKED\b": "the name of an event",
    r"\basks_model\b": "a field of `POST /api/diagnosis`",
    r"\bask\b(?=\")|\bASK\b": "a trust mode, and an outcome of the policy: a person is asked",
    r"\bask_(?:permission|questions)\b|\b(?:Person|Nobody)ToAsk\b": "a person is asked",
    r"\bCRUSH_MODEL_SILENCE(?:_SECONDS)?\b|CRUSH_OFFLINE_PACE\b": "settings",
    r"presence[-_]penalty": "an option of models",
    r"\b(?:message|sentence|document|event) says\b": "a text may say something",
}

# Files and folders where a word of the list has its ordinary meaning.
EXCEPTIONS_IN = {
    "crushsite/cli/": ({"ask", "asks", "asking", "say", "nobody"}, "a terminal asks a person"),
    "crushsite/client/": ({"ask", "asked", "asks", "asking", "say", "nobody"}, "the same"),
    "crushsite/management/commands/": ({"ask", "asks", "say", "nobody"}, "the same"),
    "agents/tools/question.py": ({"asks", "know", "say"}, "the tool asks a person"),
    "agents/llm/wires/local_model.py": ({"know", "say"}, "instructions for a model"),
    "agents/llm/wires/offline": ({"says"}, "what the offline model says"),
    "agents/prompts/": ({"asked", "say"}, "instructions for a model"),
    "permissions/policy/": ({"brief", "quiet"}, "options of programs"),
}

GENERATED = "crushclient/api/"  # from texts of the server, which count there

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_EXCEPTION = re.compile("|".join(EXCEPTIONS))
_ANY = re.compile("|".join(word.split(" ")[0] for word in LIMITS), re.IGNORECASE)
_PHRASES = [word.split(" ") for word in LIMITS if " " in word]


def words_of(line: str) -> Iterator[tuple[str, str]]:
    """The words and phrases of the dialect in a line, each with the name that it is part of."""
    if not _ANY.search(line):  # for speed
        return
    words: list[str] = []
    for name in re.findall(r"\w+", _EXCEPTION.sub(" ", line)):
        parts = [part.lower() for part in _WORD.findall(name)]
        yield from ((part, name) for part in parts if part in LIMITS)
        words += parts
    for first, second in _PHRASES:
        for at, word in enumerate(words[:-1]):
            if word == first and words[at + 1] == second:
                yield f"{first} {second}", ""


def places() -> dict[str, list[str]]:
    """The places of each word. A name of several words counts once, however often it is used."""
    found: dict[str, list[str]] = defaultdict(list)
    names: set[str] = set()
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            if "migrations" in file.parts or path.startswith(GENERATED):
                continue
            allowed = allowed_in(path)
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                for word, name in words_of(line):
                    if word in allowed or name in names:
                        continue
                    if name and name.lower() != word:
                        names.add(name)
                    found[word].append(f"{path}:{number}: {line.strip()}")
    return found


def allowed_in(path: str) -> set[str]:
    starts = [start for start in EXCEPTIONS_IN if path.startswith(start)]
    return set().union(*(EXCEPTIONS_IN[start][0] for start in starts))


def test_no_word_of_the_dialect_becomes_more_frequent() -> None:
    found = places()
    more = {
        word: f"{len(found[word])}, but at most {limit}"
        for word, limit in LIMITS.items()
        if len(found[word]) > limit
    }
    assert more == {}, "see `python -m tests.unit.house.test_words WORD`"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("def tell_session(): ...", ["tell"]),
        ("class ToldKind: ...", ["told"]),
        ("ASKED = 1  # asked twice", ["asked", "asked"]),
        ("asked_at = QUESTION_ASKED", []),
        ("running.let_go()", ["let go"]),
        ("untold = retells + outdoors", []),
    ],
)
def test_words_are_found_in_names_and_in_prose(line: str, expected: list[str]) -> None:
    assert Counter(word for word, _ in words_of(line)) == Counter(expected)


if __name__ == "__main__":
    listed = places()
    for wanted in sys.argv[1:]:
        print("\n".join(listed[wanted]))
    if not sys.argv[1:]:
        for word, where in sorted(listed.items(), key=lambda item: -len(item[1])):
            print(f"{len(where):4} {word}")
