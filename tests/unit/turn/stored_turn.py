"""What of a turn survives a crash, as far as its rebuilding is concerned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from agents.turn.effects import End
from agents.turn.inputs import RequestedCall
from agents.turn.rebuilding import rebuild
from agents.turn.state import LOOP_WINDOW, Call, Progress, Turn
from workspaces.log.parts import FinishReason


@dataclass
class Store:
    steps: list[tuple[RequestedCall, ...]] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    finishes: list[FinishReason] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    is_held: bool = True  # some worker has the run
    summaries: int = 0
    first_step: int = 0  # behind the newest summary: what lies before is not read again
    first_result: int = 0

    def missing(self) -> set[str]:
        given = Counter(call_id for call_id, _ in self.results)
        assert not given or max(given.values()) == 1, "a call has two results"
        return {call.id for step in self.steps for call in step} - set(given)

    def summarise(self) -> None:
        assert not self.missing(), "a summary cuts a step in two"
        self.summaries += 1
        self.first_step, self.first_result = len(self.steps), len(self.results)

    def rebuilt(self) -> Turn:
        return rebuild(self.steps[self.first_step :], self.results[self.first_result :])

    def repeats(self, since: int) -> int:
        """How often the newest whole step stands among the last ones from this one on."""
        given = dict(self.results)
        whole = [
            [(call.name, call.input, given[call.id]) for call in step]
            for step in self.steps[since:]
            if step and all(call.id in given for call in step)
        ][-LOOP_WINDOW:]
        return whole.count(whole[-1]) if whole else 0


def check_rebuilt(store: Store, turn: Turn) -> None:
    """A worker that takes the run on has the same turn, but for what was summarised."""
    again = store.rebuilt()
    assert again.calls == tuple(
        call if call.progress is Progress.DONE else Call(call.request) for call in turn.calls
    )
    assert again.is_denied == turn.is_denied
    assert again.trail == turn.trail[len(turn.trail) - len(again.trail) :]
    assert again.trail == turn.trail or store.summaries
