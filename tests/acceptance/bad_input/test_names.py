"""Ids, paths, methods and cursors that lead nowhere are refused."""

import uuid
from pathlib import Path
from typing import Any

from yarl import URL

from tests.acceptance.bad_input.attacker import Attacker, MakeProject
from tests.acceptance.bad_input.bodies import BODIES, CLIENT
from tests.acceptance.harness.native import NativeSse


async def test_it_refuses_unknown_ids(attacker: Attacker) -> None:
    unknown = ["nope", str(uuid.uuid4()), "%00", "..%2f..", "x" * 5000, "%ED%A0%80", "%F0%9F%98%80"]
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("GET", "/messages", None),
        ("GET", "/messages/user", None),
        ("GET", "/children", None),
        ("GET", "/history", None),
        ("GET", "/filetracker/files", None),
        ("PUT", "", {"title": "x"}),
        ("DELETE", "", None),
    ]
    work = [("POST", "/cancel"), ("POST", "/prompts/clear"), ("GET", "/prompts/list")]
    work += [("GET", "/prompts/queued"), ("GET", "")]
    for name in unknown:
        for method, rest, body in calls:
            await attacker.refused(method, f"{{ws}}/sessions/{name}{rest}", body, status=404)
        for method, rest in work:
            await attacker.refused(method, f"{{ws}}/agent/sessions/{name}{rest}", status=404)
        for rest in ("", "/agent", "/sessions", "/config", "/permissions/skip", "/providers"):
            await attacker.refused("GET", f"/v1/workspaces/{name}{rest}", status=404)
        for method, path in BODIES:
            if path.startswith("{ws}") and "sessions/" not in path:
                other = path.replace("{ws}", f"/v1/workspaces/{name}")
                body = BODIES[method, path]
                message = await attacker.refused(method, other, body)
                assert "not found" in message, (other, message)
        await attacker.refused("GET", f"/api/workspaces/{name}/snapshot", status=404)
        await attacker.refused("GET", f"/api/workspaces/{name}/events", status=404)
        events = f"/v1/workspaces/{name}/events?client_id={uuid.uuid4()}"
        await attacker.refused("GET", events, status=404)
    prompt = {"session_id": "nope", "prompt": "x"}
    await attacker.refused("POST", "{ws}/agent", prompt, status=404, naming="session")
    await attacker.nothing_happened()


async def test_it_takes_no_session_of_another_workspace(
    attacker: Attacker, project: MakeProject
) -> None:
    other = await attacker.seat.workspace.client.workspace(project("other"))
    foreign = await other.session()
    log = await NativeSse(other.client.http, other.id, after=0).open()
    await log.wait_for(lambda received: received.type == "skills.changed")
    await log.close()
    await attacker.begin()
    for method, rest, body in [
        ("GET", "/messages", None),
        ("PUT", "", {"title": "x"}),
        ("DELETE", "", None),
    ]:
        path = f"{{ws}}/sessions/{foreign}{rest}"
        await attacker.refused(method, path, body, status=404)
    await attacker.refused("POST", f"{{ws}}/agent/sessions/{foreign}/cancel", status=404)
    await attacker.refused("POST", "{ws}/agent", {"session_id": foreign, "prompt": "x"}, status=404)
    await attacker.refused(
        "GET", f"{{ws}}/filetracker/lastread?session_id={foreign}&path=a", status=404
    )
    await attacker.refused("GET", f"/api/workspaces/{{wid}}/snapshot?session={foreign}", status=404)
    await attacker.nothing_happened()


async def test_it_refuses_paths_that_cannot_be_a_workspace(
    attacker: Attacker, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop2")
    (tmp_path / "loop2").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "closed").mkdir()
    paths = [
        "",
        ".",
        "relative/path",
        "~",
        "~/x",
        "file:///tmp",
        "//no/such",
        "/\0",
        "/tmp\0/x",
        "/" + "x" * 300,
        "/" + "x" * 5000,
        "/x" * 2500,
        "/../" * 2000,
        "/dev/null",
        "/proc/self/mem",
        str(tmp_path / "nothing"),
        str(tmp_path / "file"),
        str(tmp_path / "file" / "below"),
        str(tmp_path / "loop"),
        str(tmp_path / "loop" / "below"),
        str(tmp_path / "dangling"),
        "/tmp/\n",
        "/tmp/\x1b[31m",
        "/tmp/\u202e",
    ]
    for path in paths:
        body = {"path": path, "client_id": CLIENT}
        await attacker.refused("POST", "/v1/workspaces", body, naming="path", status=400)
    await attacker.nothing_happened()


async def test_it_refuses_client_ids_that_are_no_uuids(attacker: Attacker, tmp_path: Path) -> None:
    for client_id in ("", "x", "x" * 36, CLIENT + "x", "０" * 36, "x" * 5000, CLIENT[:-1]):
        body = {"path": str(tmp_path), "client_id": client_id}
        await attacker.refused("POST", "/v1/workspaces", body, naming="client_id", status=400)
        if client_id.isascii():
            for method, path in [
                ("GET", f"{{ws}}/events?client_id={client_id}"),
                ("DELETE", f"{{ws}}?client_id={client_id}"),
                ("POST", f"{{ws}}/current-session?client_id={client_id}"),
                ("GET", f"/api/workspaces/{{wid}}/events?client_id={client_id}"),
            ]:
                if not client_id and path.startswith("/api"):
                    continue  # there it may be left out
                await attacker.refused(
                    method, path, {"session_id": ""}, naming="client_id", status=400
                )
    await attacker.refused("DELETE", "/v1/clients/x", naming="client_id", status=400)
    await attacker.nothing_happened()


async def test_it_refuses_unknown_methods_and_paths(attacker: Attacker) -> None:
    for path in ("{ws}", "{ws}/agent", "{ws}/sessions/{sid}", "/v1/health", "/v1/workspaces"):
        for method in ("PATCH", "TRACE", "BREW", "PROPFIND", "OPTIONS"):
            await attacker.refused(method, path)
    for path in (
        "/v1",
        "/v1/",
        "/v1/nope",
        "/api",
        "/api/",
        "/api/nope",
        "{ws}/nope",
        "{ws}/agent/nope",
        "{ws}/sessions/{sid}/nope",
        "/v1/../v1/nope",
        "/v1/%2e%2e/%2e%2e/etc/passwd",
        "/v1/workspaces/%",
        "/v1/workspaces/%ff",
        "/v1/" + "x" * 10_000,
        "/v1//health",
    ):
        for method in ("GET", "POST", "DELETE"):
            await attacker.refused(method, path, {} if method == "POST" else None)
    await attacker.nothing_happened()


async def test_it_refuses_invalid_cursors(attacker: Attacker) -> None:
    for after in ("x", "-1", "1.5", "9" * 400, "%00", "0x1", "999999999", "１"):
        path = f"/api/workspaces/{{wid}}/events?after={URL(f'/?a={after}').raw_query_string[2:]}"
        await attacker.refused("GET", path)
        if after.isascii():
            await attacker.refused(
                "GET", "/api/workspaces/{wid}/events", headers={"Last-Event-ID": after}
            )
    await attacker.nothing_happened()
