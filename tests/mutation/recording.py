"""Records once which tests execute which lines, so that a mutant meets only tests that can see it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

from tests.mutation.operators import Mutant

SLOWEST_SECONDS = 5.0  # a test that takes longer is left to CI: each mutant would wait for it


class Recorder:
    """A pytest plugin. Each test is a context of its own in the coverage data."""

    def __init__(self, root: Path, files: list[str], out: Path) -> None:
        self._root = root
        self._files = files
        self._out = out
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage = coverage.Coverage(
            data_file=None,
            config_file=False,
            include=[str(root / file) for file in files],
            concurrency=["thread"],
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        began = time.monotonic()
        result = yield
        self._seconds[item.nodeid] = time.monotonic() - began
        self._coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {
            file: {
                str(line): sorted(set(contexts) - {""} - self._failed)
                for line, contexts in data.contexts_by_lineno(str(self._root / file)).items()
            }
            for file in self._files
        }
        record = {
            "digest": digest_of(self._root, self._files),
            "seconds": self._seconds,
            "lines": lines,
        }
        self._out.write_text(json.dumps(record))


def digest_of(root: Path, files: list[str]) -> str:
    """Of what was recorded: after any change of these files its lines lead elsewhere."""
    return hashlib.sha256(b"\0".join((root / file).read_bytes() for file in files)).hexdigest()


@dataclass(frozen=True)
class Record:
    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]
    digest: str = ""

    @classmethod
    def load(cls, path: Path) -> Record:
        stored = json.loads(path.read_text())
        return cls(stored["seconds"], stored["lines"], stored["digest"])

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Those that execute its lines. Empty when none does."""
        by_line = self.lines.get(mutant.path, {})
        first, last = mutant.lines
        executed = [str(line) for line in range(first, last + 1) if str(line) in by_line]
        found = {test for line in executed for test in by_line[line]}
        if executed and not found:  # when its module is loaded: it concerns all that use it
            found = self._tests_of(mutant.path) or self._tests_of(str(Path(mutant.path).parent))
        return self._quick(found)

    def tests_around(self, mutant: Mutant) -> list[str]:
        """The other tests that execute something of its function.

        When an exception comes out of an ``await``, Python 3.11 does not tell the recorder that
        the function goes on, and the lines that follow are not recorded.
        """
        by_line = self.lines.get(mutant.path, {})
        first, last = mutant.around
        found = {test for line in range(first, last + 1) for test in by_line.get(str(line), ())}
        return self._quick(found - set(self.tests_for(mutant)))

    def _quick(self, tests: set[str]) -> list[str]:
        """Without those that are slow, the quickest first."""
        quick = [test for test in tests if self.seconds.get(test, 0.0) <= SLOWEST_SECONDS]
        return sorted(quick, key=lambda test: (self.seconds.get(test, 0.0), test))

    def _tests_of(self, place: str) -> set[str]:
        """Of a file, or of a folder's files."""
        return {
            test
            for path, by_line in self.lines.items()
            if path == place or path.startswith(f"{place}/")
            for tests in by_line.values()
            for test in tests
        }
