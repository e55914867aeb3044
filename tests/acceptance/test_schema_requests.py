"""Schemathesis sends what the OpenAPI schema allows, and more, to a real server.

No response may be an error of the server or have a status that the schema lacks.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call, metadata_of, permission_request, run_call
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.lsp.seats import double
from tests.acceptance.mcp.servers import on_stdio

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

HOOKS = Path(__file__).with_name("schemathesis_hooks.py")
EXAMPLES = 3  # random requests for each operation; those for each of its limits come on top
SECONDS = 600
# The rest needs rows that a request uses up, or other servers.
MOST_WITHOUT_SUCCESS = 20


async def new(seat: Seat, path: str, body: Any, *, expect: int = 201) -> Any:
    return await seat.workspace.client.http.call("POST", path, body, expect=expect)


async def seeds_of(seat: Seat, other: Seat) -> dict[str, Any]:
    """Rows for most operations, and others to be deleted."""
    await seat.workspace.call("POST", "/lsps/start", {"path": "a.py"})
    api = f"/api/workspaces/{seat.workspace.id}"
    session, doomed = await seat.workspace.session("kept"), await seat.workspace.session("doomed")
    background = call("bash", command="echo x", description="d", run_in_background=True)
    job = metadata_of(await run_call(seat, session, background))["shell_id"]
    await run_call(seat, session, call("ls", path="."))
    runs = await seat.workspace.client.http.call("GET", f"{api}/runs")
    waiting = await seat.workspace.session("waits")
    await seat.workspace.prompt(waiting, call("write", file_path="a", content="b"))
    request = await permission_request(seat, waiting)
    asking = await seat.workspace.session("asks")
    question = {"type": "yes_no", "question": "Go?"}
    await seat.workspace.prompt(asking, call("question", questions=[question]))
    batch = await seat.stream.wait_for(lambda e: e.type == "question_batch_request")
    user = await new(seat, "/api/users", {"name": "ann"})
    token, second = [
        (await new(seat, "/api/tokens", {"name": name}))["id"] for name in ("one", "two")
    ]
    await new(seat, f"{api}/members", {"name": "ann", "role": "viewer"})
    await new(seat, "/api/groups", {"name": "crew"})
    given = {"group": "crew", "workspace_id": seat.workspace.id, "role": "viewer"}
    group_role = await new(seat, "/api/group-roles", given)
    webhook = {"kind": "webhook", "url": "https://hooks.invalid/"}  # which never resolves
    channel, second_channel = [
        (await new(seat, "/api/notifications/channels", webhook))["id"] for _ in range(2)
    ]
    return {
        "folder": str(seat.workspace.path),
        "kept": {
            "workspace_id": seat.workspace.id,
            "session_id": session,
            "job_id": job,
            "key": runs["items"][0]["key"],
            "approval_id": request["id"],
            "batch_id": batch.payload["id"],
            "user_id": int(user["id"]),
            "token_id": token,
            "channel_id": channel,
            "kind": "large",
            "name": "double",
        },
        "deleted": {
            "session_id": doomed,
            "token_id": second,
            "channel_id": second_channel,
            "group_role_id": int(group_role["id"]),
        },
        "deleted_at": {"/api/workspaces/{workspace_id}": {"workspace_id": other.workspace.id}},
    }


@pytest.mark.timeout(SECONDS + 120)
async def test_no_request_that_the_schema_allows_gets_an_undocumented_status(
    embedded_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    client = connect(embedded_server)
    folder = project(
        "kept",
        permissions={"allowed_tools": ["bash"]},
        mcp={"double": on_stdio()},
        lsp={"double": double("publish")},
    )
    (folder / "a.py").write_text("x = 1\n")
    seat = await take_seat(client, folder)
    other = await take_seat(client, project("other"))
    record = tmp_path / "record"
    record.touch()
    await run_schemathesis(embedded_server, await seeds_of(seat, other), record)
    reached: dict[str, set[int]] = defaultdict(set)
    for line in record.read_text().splitlines():
        operation, _, status = line.rpartition(" ")
        if status != "405":  # it also tries methods that an address lacks
            reached[operation].add(int(status))
    without = sorted(
        f"{operation}: {sorted(statuses)}"
        for operation, statuses in reached.items()
        if not any(200 <= status < 300 for status in statuses)
    )
    assert len(reached) >= 80
    assert len(without) <= MOST_WITHOUT_SUCCESS, "\n".join(without)


async def run_schemathesis(server: Server, seeds: dict[str, Any], record: Path) -> None:
    """Fails with what it prints if it has found something."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(record.parent),
        "SCHEMATHESIS_HOOKS": str(HOOKS),
        "SCHEMATHESIS_SEEDS": json.dumps(seeds),
        "SCHEMATHESIS_RECORD": str(record),
    }
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("st")),
        *("run", f"{server.url}/api/schema"),
        *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--no-shrink"),
        *("--checks", "not_a_server_error,status_code_conformance", "--continue-on-failure"),
        *("--suppress-health-check", "all", "--warnings", "off", "--request-timeout", "60"),
        cwd=record.parent,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            printed, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, printed.decode(errors="replace")[-20_000:]
