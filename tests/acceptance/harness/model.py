"""The scripted model as a process of its own, and its control endpoints."""

import asyncio
import json
import os
import re
import sys
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.processes import Process


class ScriptedModel:
    """`tests/doubles/scripted_model` on a port of its own. Its calls block for about a millisecond."""

    def __init__(self, log: Path) -> None:
        self.url = ""
        self._process = Process(
            "scripted model",
            [sys.executable, "-m", "tests.doubles.scripted_model", "--port", "0"],
            env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            log=log,
        )

    def start(self) -> None:
        self._process.start()
        line = self._process.wait_for_line(r"listening http://")
        found = re.search(r"http://\S+", line)
        assert found is not None
        self.url = found[0].rstrip("/")

    @property
    def base_url(self) -> str:
        """What a provider's `base_url` holds."""
        return f"{self.url}/v1"

    @property
    def pid(self) -> int:
        return self._process.pid

    def new_gate(self) -> str:
        """A name for `[[gate=NAME]]` that no other test uses: the model is shared."""
        return f"g{uuid.uuid4().hex[:10]}"

    def open_gate(self, name: str) -> None:
        self._call("POST", f"/gate/{name}/open")

    def waiting_at(self, name: str) -> int:
        """How many requests the gate holds."""
        return int(self._call("GET", f"/gate/{name}")["waiting"])

    async def wait_at_gate(self, name: str, count: int = 1, timeout: float = 60) -> None:
        """Return when the gate holds `count` requests: the runs are then exactly there."""
        async with asyncio.timeout(timeout):
            while self.waiting_at(name) < count:
                await asyncio.sleep(0.01)

    def served(self, containing: str = "") -> list[dict[str, Any]]:
        """The requests so far, oldest first; those whose entry holds a text, when one is given."""
        entries: list[dict[str, Any]] = self._call("GET", "/served")
        return [e for e in entries if containing in json.dumps(e, ensure_ascii=False)]

    def request(self, number: int) -> dict[str, Any]:
        """The body and headers of one of the last 200 requests."""
        shown: dict[str, Any] = self._call("GET", f"/served/{number}")
        return shown

    def _call(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def log_text(self) -> str:
        return self._process.log_text()

    def stop(self) -> None:
        self._process.kill9()
