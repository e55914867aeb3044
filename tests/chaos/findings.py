"""What was seen: violations of what the server promises, and figures about them."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TextIO

_SHOWN_PER_KIND = 5
_SHOWN_CHARS = 4_000


@dataclass
class Findings:
    out: TextIO  # the course of events, with times
    violations: list[tuple[str, str]] = field(default_factory=list)  # kind, what
    counted: Counter[str] = field(default_factory=Counter)
    _began: float = field(default_factory=time.monotonic)

    def note(self, text: str) -> None:
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.gmtime(now))
        self.out.write(
            f"{clock}.{int(now * 1000) % 1000:03}Z {time.monotonic() - self._began:7.1f} s  {text}\n"
        )
        self.out.flush()

    def violated(self, kind: str, what: str) -> None:
        self.violations.append((kind, what))
        self.note(f"VIOLATION {kind}: {what}")

    def table(self) -> str:
        """The figures, and how often each promise was broken."""
        lines = [f"{name:<42} {count}" for name, count in self.counted.items()]
        kinds = Counter(kind for kind, _ in self.violations)
        lines += [f"{'violations: ' + kind:<42} {count}" for kind, count in kinds.items()]
        return "\n".join([*lines, f"{'violations':<42} {len(self.violations)}"])

    def details(self) -> str:
        shown: Counter[str] = Counter()
        lines: list[str] = []
        for kind, what in self.violations:
            shown[kind] += 1
            if shown[kind] <= _SHOWN_PER_KIND:
                lines.append(f"{kind}: {what[:_SHOWN_CHARS]}")
        lines += [
            f"{kind}: {count - _SHOWN_PER_KIND} more"
            for kind, count in shown.items()
            if count > _SHOWN_PER_KIND
        ]
        return "\n".join(lines)
