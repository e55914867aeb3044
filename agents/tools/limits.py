"""The stated sizes of what tools take and give, and the cutting of what is longer.

Every number that a person may want to look up is here; ``README.md`` lists them.
"""

from __future__ import annotations

MAX_PATH_BYTES = 4_096
MAX_NAME_BYTES = 255
MAX_COMMAND_BYTES = 100_000
COMMAND_SECONDS = 600.0
COMMAND_OUTPUT_BYTES = 30_000
MAX_TEXT_BYTES = 2 * 1024 * 1024  # a file that is edited or written
MAX_VIEW_BYTES = 20 * 1024 * 1024  # a file of which some lines are shown
VIEW_LINES = 200
MAX_VIEW_LINES = 5_000
VIEW_LINE_CHARS = 2_000
VIEW_CHARS = 200_000
MAX_IMAGE_BYTES = 3_750_000  # 5 MB as base64, the least that a provider takes
MAX_EDITS = 200
LIST_ENTRIES = 1_000
SEARCH_RESULTS = 100
SEARCH_SECONDS = 30.0
SEARCH_LINE_CHARS = 500
MAX_PATTERN_CHARS = 1_000
MAX_TODOS = 100
MAX_TODO_CHARS = 2_000


def cut_middle(text: str, limit: int) -> str:
    """At most about ``limit`` characters: the head, how much was left out, the tail."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n\n... {left_out:,} characters left out ...\n\n{text[-half:]}"


def cut_line(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    return f"{line[:limit]}... [{len(line) - limit:,} more characters in this line]"
