"""What starting `manage.py serve` is called here, and how a refused start looks."""

from collections.abc import Callable
from pathlib import Path

from tests.acceptance.harness.client import Client
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]
Serve = Callable[..., Process]
EXIT_SECONDS = 60  # only guards against a process that does not end


def refused_to_start(process: Process) -> str:
    """What it says; one sentence, and no stack trace."""
    assert process.wait(EXIT_SECONDS) == 1
    log = process.log_text()
    assert "Traceback" not in log
    assert "Serving" not in log
    assert len(log.strip().splitlines()) == 1, log
    return log
