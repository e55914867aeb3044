"""What clients are told of MCP servers, and which rows outlive a process."""

from __future__ import annotations

from agents.models import McpSecret, McpServer
from agents.runs.tool_servers import mcp_servers
from agents.tools.mcp.contract import McpChange, McpServerView, McpStatus, ProcessIdentity
from tests.integration.runs.ground import Ground, open_ground, write
from workspaces.log.timestamps import now_ms
from workspaces.models import Workspace


def record_mcp(ground: Ground, view: McpServerView, change: McpChange = McpChange.STATE) -> None:
    write(lambda tx: mcp_servers.record_server(tx, ground.workspace_id, view, change))


def view(
    state: McpStatus = McpStatus.CONNECTED, name: str = "docs", **more: object
) -> McpServerView:
    return McpServerView(name=name, state=state, **more)  # type: ignore[arg-type]  # in tests


def test_an_mcp_server_is_told_with_its_counts_while_it_is_connected(ground: Ground) -> None:
    running = ProcessIdentity(7, "7/1")
    record_mcp(ground, view(tool_count=2, prompt_count=0, resource_count=1, process=running))
    record_mcp(ground, view(McpStatus.ERROR, tool_count=2, error="it ended"), McpChange.TOOLS)

    first, second = (event["mcp"] for event in ground.events("mcp.changed"))
    assert first == {
        "type": "state_changed",
        "name": "docs",
        "state": "connected",
        "tool_count": 2,
        "resource_count": 1,
    }
    assert second == {
        "type": "tools_list_changed",
        "name": "docs",
        "state": "error",
        "error": "it ended",
    }
    row = McpServer.objects.get()
    assert (row.state, row.error, row.tool_count, row.pid) == ("error", "it ended", 2, 0)


def test_nothing_of_an_mcp_server_is_recorded_after_its_workspace_closed(ground: Ground) -> None:
    open_ground("/other")
    Workspace.objects.filter(pk=ground.workspace_id).update(is_open=False)
    record_mcp(ground, view())
    assert not McpServer.objects.exists()
    assert ground.events("mcp.changed") == []


def test_mcp_rows_are_dropped_by_name_or_all(ground: Ground) -> None:
    other = open_ground("/other")
    for name in ("a", "b", "c"):
        record_mcp(ground, view(name=name))
    record_mcp(other, view(name="a"))
    write(lambda tx: mcp_servers.drop_servers(tx, ground.workspace_id, ["a"]))
    assert set(McpServer.objects.values_list("workspace_id", "name")) == {
        (ground.workspace_id, "b"),
        (ground.workspace_id, "c"),
        (other.workspace_id, "a"),
    }
    write(lambda tx: mcp_servers.drop_servers(tx, ground.workspace_id, None))
    assert McpServer.objects.get().workspace_id == other.workspace_id
    write(mcp_servers.drop_all_servers)
    assert not McpServer.objects.exists()


def test_the_rows_of_lost_mcp_processes_go_unless_they_run_again(ground: Ground) -> None:
    other = open_ground("/other")
    for name, pid in (("a", 7), ("b", 8), ("none", 0)):
        record_mcp(ground, view(name=name, process=ProcessIdentity(pid, f"{pid}/1" if pid else "")))
    record_mcp(other, view(name="a", process=ProcessIdentity(9, "9/1")))
    lost = mcp_servers.read_processes(ground.workspace_id)
    assert sorted((one.pid, one.pid_started) for one in lost) == [(7, "7/1"), (8, "8/1")]
    assert sorted(one.pid for one in mcp_servers.read_processes(None)) == [7, 8, 9]
    # Meanwhile one has been started again, and has got the same number.
    record_mcp(ground, view(name="b", process=ProcessIdentity(8, "8/2")))

    write(lambda tx: mcp_servers.settle_processes(tx, lost))

    names = McpServer.objects.filter(workspace_id=ground.workspace_id).values_list(
        "name", flat=True
    )
    assert sorted(names) == ["b", "none"]


def test_each_change_of_a_secret_is_later_than_the_one_before(ground: Ground) -> None:
    before = now_ms()
    first = write(lambda tx: mcp_servers.save_secret(tx, "key", "one"))
    assert before <= first <= now_ms()
    McpSecret.objects.update(changed_at=first + 10_000_000)
    second = write(lambda tx: mcp_servers.save_secret(tx, "key", "two"))
    assert second == first + 10_000_001
    assert write(lambda tx: mcp_servers.save_secret(tx, "another", "x")) < second
    row = McpSecret.objects.get(url="key")
    assert (row.sealed, row.changed_at) == ("two", second)


def test_what_clients_are_told_of_an_mcp_server_is_its_row(ground: Ground) -> None:
    asks = view(McpStatus.NEEDS_AUTH, auth_url="https://a.example/login", connected_at=None)
    record_mcp(ground, asks)
    connected = view(tool_count=1, prompt_count=2, resource_count=3, connected_at=5, auth_url="")
    record_mcp(ground, view(name="other"))
    assert McpServer.objects.get(name="docs").auth_url == "https://a.example/login"
    record_mcp(ground, connected)
    row = McpServer.objects.get(name="docs")
    assert (row.state, row.auth_url, row.connected_at) == ("connected", "", 5)
    assert (row.tool_count, row.prompt_count, row.resource_count) == (1, 2, 3)
    assert McpServer.objects.get(name="other").tool_count == 0
    told = ground.events("mcp.changed")[-1]["mcp"]
    assert (told["tool_count"], told["prompt_count"], told["resource_count"]) == (1, 2, 3)


def test_the_servers_that_a_run_begins_without_are_told(ground: Ground) -> None:
    held = ground.start()
    write(lambda tx: mcp_servers.record_late_servers(tx, held, ("docs", "web")))
    (told,) = ground.events("mcp.awaited")
    assert told == {"session_id": ground.session_id, "servers": ["docs", "web"]}


def test_the_same_process_number_in_another_row_is_not_settled(ground: Ground) -> None:
    other = open_ground("/other")
    for one in (ground, other):
        record_mcp(one, view(process=ProcessIdentity(7, "7/1")))
    lost = mcp_servers.read_processes(ground.workspace_id)
    assert [one.workspace_id for one in lost] == [ground.workspace_id]
    McpServer.objects.filter(workspace_id=ground.workspace_id).update(pid=1)
    write(lambda tx: mcp_servers.settle_processes(tx, lost))
    assert McpServer.objects.count() == 2
    lost = mcp_servers.read_processes(ground.workspace_id)
    write(lambda tx: mcp_servers.settle_processes(tx, lost))
    assert McpServer.objects.get().workspace_id == other.workspace_id
