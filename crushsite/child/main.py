"""``manage.py runchild``: a child process, before anything of Django is loaded.

The settings would name the server's database; here they are read only when an
assignment needs a turn of ours, and then name the child's own.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

from agents.fleet.child.executor import RunExecutor
from agents.fleet.child.process import run_child
from agents.fleet.provisioning import ProvisionSpec

# Another program's name for its own turn, and ours.
TURNS = ("bamboo_runtime", "crush")


def main(arguments: Sequence[str]) -> int:
    # What is loaded at the start stays: looking through it again and again only costs time.
    gc.set_threshold(50_000, 20, 50)
    return run_child(arguments, dict.fromkeys(TURNS, _own_turn))


def _own_turn(spec: ProvisionSpec) -> RunExecutor:
    from crushsite.child.own_turn import OwnTurn  # noqa: PLC0415  it is dear to load

    return OwnTurn(spec)
