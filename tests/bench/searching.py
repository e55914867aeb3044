"""The grep tool beside ripgrep itself, over a tree of 50,000 files, in turns on the same machine."""

import asyncio
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from agents.tools.search import search_process
from agents.tools.search.grep import GREP
from tests.bench.scenarios import Outcome
from tests.bench.subjects import Running, Subject
from tests.doubles.tool_context import make_tool_doubles

_FOLDERS, _FILES_EACH, _LINES = 1_000, 50, 40
_REPETITIONS = 9
# How many of the files hold the word: one in so many.
_PATTERNS = {"rare": 500, "common": 5}


async def grep(subject: Subject, running: Running) -> Outcome:
    """The tool alone: what a server adds to each call is measured by the turns."""
    binary = search_process.binary()
    if binary is None:
        raise RuntimeError("there is no ripgrep to compare with")
    out = Outcome()
    root = Path(tempfile.mkdtemp(prefix="crush-bench-tree-")).resolve()
    try:
        await asyncio.to_thread(_plant, root)
        context = make_tool_doubles(root).context
        for name in _PATTERNS:
            word = f"word-{name}"
            args = GREP.parse({"pattern": word})
            own, ripgrep = [], []
            for _ in range(_REPETITIONS + 1):  # the first warms the file system's cache
                began = time.perf_counter()
                await asyncio.to_thread(
                    subprocess.run,
                    [binary, "--line-number", word, "./"],
                    cwd=root,
                    stdout=subprocess.PIPE,
                    check=True,
                )
                between = time.perf_counter()
                await GREP.run(args, context)
                own.append((time.perf_counter() - between) * 1000)
                ripgrep.append((between - began) * 1000)
            out.search_ms[name], out.search_ms[f"{name}, ripgrep"] = own[1:], ripgrep[1:]
    finally:
        await asyncio.to_thread(shutil.rmtree, root)
    return out


def _plant(root: Path) -> None:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(2_000)]
    number = 0
    for folder in range(_FOLDERS):
        path = root / f"part-{folder // 20}" / f"folder-{folder}"
        path.mkdir(parents=True)
        for file in range(_FILES_EACH):
            lines = [" ".join(chance.choices(words, k=8)) for _ in range(_LINES)]
            lines += [f"word-{name}" for name, each in _PATTERNS.items() if number % each == 0]
            (path / f"file-{file}.py").write_text("\n".join(lines))
            number += 1
