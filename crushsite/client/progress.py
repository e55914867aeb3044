"""What a person sees at the terminal while a command works for more than a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LATER_SECONDS = 1.0


@contextmanager
def progress(
    what: str, *, total: int | None = None, is_bytes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Shows on standard error that the block works, and disappears at its end.

    Yields a function that adds to what is done. ``total``: of which amount; unknown without it.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    bar = _Bar(what, total, is_bytes=is_bytes)
    timer = threading.Timer(LATER_SECONDS, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.advance
    finally:
        timer.cancel()
        bar.end()


class _Bar:
    """Loads and draws only if it is shown, which another thread does."""

    def __init__(self, what: str, total: int | None, *, is_bytes: bool) -> None:
        self._what = what
        self._total = total
        self._is_bytes = is_bytes
        self._done = 0
        self._has_ended = False
        self._lock = threading.Lock()
        self._advance: Callable[[int], None] | None = None
        self._stop: Callable[[], None] | None = None

    def show(self) -> None:
        with self._lock:
            if not self._has_ended:
                self._draw()

    def advance(self, amount: int) -> None:
        with self._lock:
            self._done += amount
            if self._advance is not None:
                self._advance(self._done)

    def end(self) -> None:
        with self._lock:
            self._has_ended = True
            if self._stop is not None:
                self._stop()

    def _draw(self) -> None:
        from rich import progress as drawing  # noqa: PLC0415  only a terminal needs it
        from rich.console import Console  # noqa: PLC0415  the same

        amount: list[drawing.ProgressColumn] = []
        if self._is_bytes:
            amount = [drawing.DownloadColumn()]
        elif self._total is not None:
            amount = [drawing.MofNCompleteColumn()]
        bar = [drawing.BarColumn(bar_width=24)] if self._total is not None else []
        shown = drawing.Progress(
            drawing.SpinnerColumn(),
            drawing.TextColumn("{task.description}", markup=False),
            *bar,
            *amount,
            drawing.TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = shown.add_task(self._what, total=self._total, completed=self._done)
        self._advance = lambda done: shown.update(task, completed=done)
        self._stop = shown.stop
        shown.start()
