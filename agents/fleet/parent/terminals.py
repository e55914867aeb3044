"""Which terminal is the run's own, when runs were superseded. Pure.

No frame names its run, and the two terminals of a superseded and a new run come
in either order. Each run sends one, a superseded one normally ``cancelled``.
"""

from __future__ import annotations

from agents.fleet.wire import Status, Terminal


class Terminals:
    def __init__(self) -> None:
        self._expected = 1
        self._taken: list[Terminal] = []

    def superseded(self) -> None:
        self._expected += 1

    def take(self, terminal: Terminal) -> bool:
        """Whether it was the last one due."""
        self._taken.append(terminal)
        return len(self._taken) >= self._expected

    @property
    def may_be_over(self) -> bool:
        """The newest run may have ended: one is still due, but perhaps of a run that died."""
        return any(terminal.status != Status.CANCELLED for terminal in self._taken)

    def chosen(self, *, was_cancelled: bool) -> Terminal:
        """The newest run's, of at least one taken."""
        ended = [each for each in self._taken if each.status != Status.CANCELLED]
        if len(ended) == 1 and not was_cancelled:
            return ended[0]
        # A run that ended by itself just before it was superseded comes first.
        return self._taken[-1]
