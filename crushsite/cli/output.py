"""What the command prints: the answer to standard output, everything about it to standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.management.base import OutputWrapper

from crushsite.cli.terminal_output import plain


class Output:
    def __init__(self, out: OutputWrapper, err: OutputWrapper) -> None:
        self._out = out
        self._err = err
        self._held: list[Callable[[], None]] | None = None

    def say(self, text: str) -> None:
        """Words of the answer."""
        self._print(lambda: _write(self._out, plain(text) if self._out.isatty() else text))

    def note(self, text: str) -> None:
        """Words about it."""
        self._print(lambda: _write(self._err, text))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps everything back until the end, in order. Not nested."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for printing in held:
                printing()

    def _print(self, printing: Callable[[], None]) -> None:
        if self._held is None:
            printing()
        else:
            self._held.append(printing)


def _write(to: OutputWrapper, text: str) -> None:
    to.write(text, style_func=str, ending="")  # no alarm: it is not an error
    to.flush()
