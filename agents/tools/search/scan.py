"""Searches files for a regular expression without ripgrep.

It runs by path with ``python -I -S``, in a process of its own: a pattern that backtracks
for ever can only be stopped from outside. Stdin contains NUL-separated file names
relative to the working folder. Matches are printed in ripgrep's format: ``path NUL
line-number : line``. Exit code 2 means an invalid pattern.
"""

import re
import sys

MAX_FILE_BYTES = 20 * 1024 * 1024
MATCHES_PER_FILE = 1_000


def main(pattern: str, line_chars: int) -> int:
    try:
        wanted = re.compile(pattern.encode("utf-8", "surrogateescape"))
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(str(error))
        return 2
    out = sys.stdout.buffer
    for name in sys.stdin.buffer.read().split(b"\0"):
        try:
            with open(name, "rb") as file:  # noqa: PTH123  names are bytes
                content = file.read(MAX_FILE_BYTES)
        except OSError:
            continue
        if b"\0" in content:
            continue
        found = 0
        for number, line in enumerate(content.split(b"\n"), start=1):
            if wanted.search(line):
                out.write(b"%b\0%d:%b\n" % (name, number, line[: line_chars * 4]))
                found += 1
                if found == MATCHES_PER_FILE:
                    break
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
