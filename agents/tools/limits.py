"""The sizes and times of the tools, and the functions that cut longer texts.

Every limit that a person may look up is here; ``README.md`` lists them.
"""

from __future__ import annotations

MAX_PATH_BYTES = 4_096
MAX_NAME_BYTES = 255
MAX_COMMAND_BYTES = 100_000
COMMAND_SECONDS = 600.0
COMMAND_OUTPUT_BYTES = 30_000
BACKGROUND_AFTER_SECONDS = 60
JOBS_RUNNING = 20  # of one workspace in one process
JOBS_KEPT = 100  # of one workspace, with their output
JOB_WAIT_SECONDS = 600.0
USER_COMMANDS_RUNNING = 10
USER_OUTPUT_BYTES = 100_000
LIVE_OUTPUT_BYTES = 16_000  # of the output shown while a command runs
MAX_TEXT_BYTES = 2 * 1024 * 1024  # a file that is edited or written
MAX_VIEW_BYTES = 20 * 1024 * 1024  # a file to show lines of
VIEW_LINES = 200
MAX_VIEW_LINES = 5_000
VIEW_LINE_CHARS = 2_000
VIEW_CHARS = 200_000
MAX_IMAGE_BYTES = 3_750_000  # 5 MB as base64, the lowest limit of any provider
MAX_IMAGE_PIXELS = 8_000  # on each side
MAX_EDITS = 200
LIST_ENTRIES = 1_000
SEARCH_RESULTS = 100
SEARCH_SECONDS = 30.0
SEARCH_LINE_CHARS = 500
MAX_PATTERN_CHARS = 1_000
MAX_URL_BYTES = 8_192
MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
FETCH_SECONDS = 30
MAX_FETCH_SECONDS = 120
MAX_PAGE_BYTES = 5_000_000
CONVERT_SECONDS = 25.0
FETCH_CHARS = 100_000
INLINE_PAGE_CHARS = 50_000  # of web_fetch; a longer page becomes a file
DOWNLOAD_SECONDS = 300
MAX_DOWNLOAD_SECONDS = 600
MAX_DOWNLOAD_BYTES = 100_000_000
MAX_QUERY_BYTES = 2_000
WEB_RESULTS = 10
MAX_WEB_RESULTS = 20
CODE_RESULTS = 10
MAX_CODE_RESULTS = 20
CODE_CONTEXT_LINES = 10
MAX_CODE_CONTEXT_LINES = 50
MAX_AGENT_PROMPT = 200_000
MAX_AGENT_ANSWER = 200_000
MAX_QUESTIONS = 20
MAX_CHOICES = 50
MAX_QUESTION_CHARS = 10_000
MAX_TODOS = 100
MAX_TODO_CHARS = 2_000


def cut_middle(text: str, limit: int) -> str:
    """Cuts a text to about ``limit`` characters: the head, the size of the gap, the tail."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n\n... {left_out:,} characters left out ...\n\n{text[-half:]}"


def cut_line(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    return f"{line[:limit]}... [{len(line) - limit:,} more characters in this line]"
