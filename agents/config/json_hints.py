"""What to do about text that is not JSON. Pure.

Says what is usually wrong there, in fixed words: never with a piece of the text,
which may hold a key.
"""

from __future__ import annotations

import json

_BY_MESSAGE = {
    "Expecting ',' delimiter": "put a comma before it, or close what is open",
    "Expecting ':' delimiter": "put a colon between the name and its value",
    "Unterminated string starting at": "close this text with a double quote",
    "Extra data": "take away what follows the last brace",
    "Invalid control character at": "write line breaks and tabs in a text as \\n and \\t",
    "Invalid \\escape": "write a backslash in a text as \\\\",
    "Invalid \\uXXXX escape": "write \\u with four hexadecimal digits",
}
_BY_CHARACTER = {
    "'": "use double quotes",
    "/": "JSON has no comments: take it away",
    "#": "JSON has no comments: take it away",
    ",": "take away the comma that is too many",
    "<": "resolve the merge conflict",
    "=": "resolve the merge conflict",
    ">": "resolve the merge conflict",
}


def hint_for(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    character = text[at : at + 1]
    if not text[at:].strip():
        return "the file ends too early: close what is open"
    if character in _BY_CHARACTER:
        return _BY_CHARACTER[character]
    before = text[max(0, at - 1_000) : at].rstrip()[-1:]
    if before == "," and character in {"}", "]"}:
        return "take away the comma before it"
    if error.msg.startswith("Expecting property name"):
        return "put names in double quotes, and no comma after the last"
    if error.msg == "Expecting value":
        return "put a value there: a text in double quotes, a number, true, false or null"
    return next(
        (hint for start, hint in _BY_MESSAGE.items() if error.msg.startswith(start)),
        "mend it there",
    )
