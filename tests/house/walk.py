"""A prompt's way through the code, followed by the interpreter: `python -m tests.house.walk`.

Starts a server that notes each of its own functions at its first call, sends a prompt whose command
needs a permission, answers the request, and prints counts for the legs of the way. A *hop* is a
function, a *return* the entry of a file that was left before in the same leg. A leg ends when no
further function is called. What the server calls without a prompt is followed before and left out.

Threads and tasks overlap, so runs differ a little: compare the means of three.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.harness.environment import server_environment
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.project import make_project

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "crushsite", "notifications", "people", "permissions", "workspaces")
WAIT_SECONDS = 60.0
IDLE_SECONDS = 12.0  # longer than each loop of an idle server pauses
QUIET_SECONDS = 1.5
POLL_SECONDS = 0.05
LEGS = {
    "A": "from the request to the request to the model",
    "B": "to the permission request, with words and the call of a tool",
    "C": "from the answer to the end of the run",
}
IDLE, BETWEEN = "-", " "

# Runs in the server's process. Each line of its output is a function: leg, file and name. The leg is
# one byte in a shared file. A function is written once for each leg.
TRACER = r"""
import mmap, os, runpy, sys, threading
root, leg, output, *arguments = sys.argv[1:]
packages = tuple(os.path.join(root, name) + os.sep for name in {packages!r})
out = open(output, "w", buffering=1)
with open(leg, "r+b") as file:
    shared = mmap.mmap(file.fileno(), 1)
seen = set()

def follow(frame, event, _):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(packages) or code.co_name[0] == "<":
        return
    now = shared[0]
    if (now, code) not in seen:
        seen.add((now, code))
        out.write(f"{{chr(now)}} {{os.path.relpath(code.co_filename, root)}} {{code.co_qualname}}\n")

sys.argv = arguments
sys.path.insert(0, root)
threading.setprofile(follow)
sys.setprofile(follow)
runpy.run_path(os.path.join(root, "manage.py"), run_name="__main__")
"""


@dataclass(frozen=True)
class Hop:
    leg: str
    file: str
    function: str


@dataclass(frozen=True)
class Counts:
    hops: int
    files: int
    returns: int


def counts_of(hops: Sequence[Hop]) -> Counts:
    left: set[str] = set()
    current, returns = "", 0
    for hop in hops:
        if hop.file != current:
            returns += hop.file in left
            left.add(current)
            current = hop.file
    return Counts(len(hops), len({hop.file for hop in hops}), returns)


def hops_of(text: str) -> list[Hop]:
    """The tracer's output as hops, in order, without functions that an idle server calls too."""
    found = [line.split(" ", 2) for line in text.splitlines() if line[0] != BETWEEN]
    idle = {(file, function) for leg, file, function in found if leg == IDLE}
    return [
        Hop(leg, file, function)
        for leg, file, function in found
        if leg != IDLE and (file, function) not in idle
    ]


def table(hops: Sequence[Hop]) -> str:
    lines = ["| leg | hops | files | returns |", "|---|---|---|---|"]
    legs = [(leg, [hop for hop in hops if hop.leg == leg]) for leg in LEGS]
    found = [(leg, counts_of(part)) for leg, part in legs]
    lines += [
        f"| {leg}: {LEGS[leg]} | {counts.hops} | {counts.files} | {counts.returns} |"
        for leg, counts in found
    ]
    hop_sum = sum(counts.hops for _, counts in found)
    returns = sum(counts.returns for _, counts in found)
    return "\n".join(
        [*lines, f"| sum; files of all | {hop_sum} | {counts_of(hops).files} | {returns} |"]
    )


class Client:
    """Calls of the /v1 interface. Each blocks."""

    def __init__(self, port: int) -> None:
        self._port = port

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = self._connection()
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status not in {200, 202}:
            raise RuntimeError(f"{method} {path}: {response.status} {content!r}")
        return json.loads(content) if content else None

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[dict[str, Any]]]:
        connection = self._connection()
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            yield (json.loads(line[6:]) for line in response if line.startswith(b"data: "))
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=WAIT_SECONDS)


class Trace:
    """The files that the tracer shares: the leg of the moment, and the functions so far."""

    def __init__(self, folder: Path) -> None:
        self.leg, self.output = folder / "leg", folder / "hops"
        self.leg.write_text(BETWEEN)
        self.output.touch()

    def begin(self, leg: str) -> None:
        with self.leg.open("r+") as file:
            file.write(leg)

    def wait_until_quiet(self) -> None:
        """Return when no function has been called for the first time for a while."""
        deadline = time.monotonic() + WAIT_SECONDS
        size, since = -1, 0.0
        while True:
            now = time.monotonic()
            if size != (size := self.output.stat().st_size):
                since = now
            if now - since > QUIET_SECONDS:
                return
            if now > deadline:
                raise RuntimeError("the server does not become quiet")
            time.sleep(POLL_SECONDS)


def walk(root: Path) -> list[Hop]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = ScriptedModel(folder / "model.log")
        model.start()
        try:
            with _traced_server(root, folder) as (client, trace):
                _drive(client, model, trace, make_project(folder / "project", model.base_url))
                return hops_of(trace.output.read_text())
        finally:
            model.stop()


@contextmanager
def _traced_server(root: Path, folder: Path) -> Iterator[tuple[Client, Trace]]:
    trace, port = Trace(folder), free_port()
    tracer = [TRACER.format(packages=PACKAGES), str(root), str(trace.leg), str(trace.output)]
    serve = ["manage.py", "serve", "--host", f"tcp://127.0.0.1:{port}"]
    server = Process(
        "server",
        [sys.executable, "-c", *tracer, *serve],
        env=server_environment(folder / "home", folder / "data", {}),
        cwd=root,
        log=folder / "log",
    )
    server.start()
    try:
        server.wait_for_line("Serving", WAIT_SECONDS)
        yield Client(port), trace
    finally:
        server.kill9()


def _drive(client: Client, model: ScriptedModel, trace: Trace, project: Path) -> None:
    client_id = str(uuid.uuid4())
    opening = {"path": str(project), "client_id": client_id}
    base = f"/v1/workspaces/{client.call('POST', '/v1/workspaces', opening)['id']}"
    with client.stream(f"{base}/events?client_id={client_id}") as events:
        client.call("POST", f"{base}/agent/init")
        session = client.call("POST", f"{base}/sessions", {"title": "x"})["id"]
        trace.wait_until_quiet()
        trace.begin(IDLE)
        time.sleep(IDLE_SECONDS)

        trace.begin("A")
        gate = model.new_gate()
        arguments = json.dumps({"command": "touch made.txt", "description": "test"})
        prompt = f"[[gate={gate} before=3]] [[tool=bash {arguments}]] [[n=3]]"
        client.call("POST", f"{base}/agent", {"session_id": session, "prompt": prompt})
        _wait_for(lambda: model.waiting_at(gate))
        trace.wait_until_quiet()

        trace.begin("B")
        model.open_gate(gate)
        request = _payload(events, "permission_request")
        trace.wait_until_quiet()

        trace.begin("C")
        allowed = {"permission": request, "action": "allow"}
        client.call("POST", f"{base}/permissions/grant", allowed)
        _payload(events, "run_complete")
        trace.wait_until_quiet()


def _wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the prompt did not reach the model")
        time.sleep(POLL_SECONDS)


def _payload(events: Iterator[dict[str, Any]], kind: str) -> Any:
    """Of the next event of this kind."""
    found = next(event["payload"] for event in events if event.get("type") == kind)
    return found.get("payload", found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.house.walk", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout to follow")
    parser.add_argument("--hops", action="store_true", help="print each hop")
    chosen = parser.parse_args()
    hops = walk(chosen.root.resolve())
    print(table(hops))
    if chosen.hops:
        print("\n" + "\n".join(f"{hop.leg} {hop.file}: {hop.function}" for hop in hops))


if __name__ == "__main__":
    main()
