"""What clients are told of MCP and language servers, and which rows outlive a process."""

from __future__ import annotations

from agents.actions import lsp_states, mcp_states
from agents.models import LanguageServer, McpSecret, McpServer
from agents.tools.lsp.states import ServerStatus
from agents.tools.lsp.states import State as LspState
from agents.tools.mcp.contract import Change, ProcessIdentity, State, View
from tests.integration.actions.ground import Ground, open_ground, write
from workspaces.models import Workspace


def record_mcp(ground: Ground, view: View, change: Change = Change.STATE) -> None:
    write(lambda tx: mcp_states.record_server(tx, ground.workspace_id, view, change))


def view(state: State = State.CONNECTED, name: str = "docs", **more: object) -> View:
    return View(name=name, state=state, **more)  # type: ignore[arg-type]  # in tests


def test_an_mcp_server_is_told_with_its_counts_while_it_is_connected(ground: Ground) -> None:
    running = ProcessIdentity(7, "7/1")
    record_mcp(ground, view(tool_count=2, prompt_count=0, resource_count=1, process=running))
    record_mcp(ground, view(State.ERROR, tool_count=2, error="it ended"), Change.TOOLS)

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
    Workspace.objects.update(is_open=False)
    record_mcp(ground, view())
    assert not McpServer.objects.exists()
    assert ground.events("mcp.changed") == []


def test_mcp_rows_are_dropped_by_name_or_all(ground: Ground) -> None:
    other = open_ground("/other")
    for name in ("a", "b", "c"):
        record_mcp(ground, view(name=name))
    record_mcp(other, view(name="a"))
    write(lambda tx: mcp_states.drop_servers(tx, ground.workspace_id, ["a"]))
    assert set(McpServer.objects.values_list("workspace_id", "name")) == {
        (ground.workspace_id, "b"),
        (ground.workspace_id, "c"),
        (other.workspace_id, "a"),
    }
    write(lambda tx: mcp_states.drop_servers(tx, ground.workspace_id, None))
    assert McpServer.objects.get().workspace_id == other.workspace_id
    write(mcp_states.drop_all_servers)
    assert not McpServer.objects.exists()


def test_the_rows_of_lost_mcp_processes_go_unless_they_run_again(ground: Ground) -> None:
    other = open_ground("/other")
    for name, pid in (("a", 7), ("b", 8), ("none", 0)):
        record_mcp(ground, view(name=name, process=ProcessIdentity(pid, f"{pid}/1" if pid else "")))
    record_mcp(other, view(name="a", process=ProcessIdentity(9, "9/1")))
    lost = mcp_states.read_processes(ground.workspace_id)
    assert sorted((one.pid, one.pid_started) for one in lost) == [(7, "7/1"), (8, "8/1")]
    assert sorted(one.pid for one in mcp_states.read_processes(None)) == [7, 8, 9]
    # Meanwhile one has been started again, and has got the same number.
    record_mcp(ground, view(name="b", process=ProcessIdentity(8, "8/2")))

    write(lambda tx: mcp_states.settle_processes(tx, lost))

    names = McpServer.objects.filter(workspace_id=ground.workspace_id).values_list(
        "name", flat=True
    )
    assert sorted(names) == ["b", "none"]


def test_each_change_of_a_secret_is_later_than_the_one_before(ground: Ground) -> None:
    first = write(lambda tx: mcp_states.save_secret(tx, "key", "one"))
    McpSecret.objects.update(changed_at=first + 10_000_000)
    second = write(lambda tx: mcp_states.save_secret(tx, "key", "two"))
    assert second == first + 10_000_001
    assert write(lambda tx: mcp_states.save_secret(tx, "another", "x")) < second
    row = McpSecret.objects.get(url="key")
    assert (row.sealed, row.changed_at) == ("two", second)


def record_lsp(ground: Ground, status: ServerStatus) -> None:
    write(lambda tx: lsp_states.record_status(tx, ground.workspace_id, status))


def status(state: LspState, **more: object) -> ServerStatus:
    return ServerStatus("gopls", state, **more)  # type: ignore[arg-type]  # in tests


RUNNING = {"pid": 7, "pid_started": "7/1"}


def test_a_language_server_is_told_once_for_each_change(ground: Ground) -> None:
    ready = status(LspState.READY, is_connected=True, **RUNNING)
    record_lsp(ground, status(LspState.STARTING, **RUNNING))
    record_lsp(ground, ready)
    connected_at = LanguageServer.objects.get().connected_at
    assert connected_at is not None
    count = len(ground.events("lsp.changed"))
    record_lsp(ground, status(LspState.READY, **RUNNING))  # nothing differs
    assert len(ground.events("lsp.changed")) == count == 2
    record_lsp(ground, status(LspState.READY, diagnostic_count=3, only_diagnostics=True, **RUNNING))
    assert LanguageServer.objects.get().connected_at == connected_at
    record_lsp(ground, status(LspState.READY, only_diagnostics=True, **RUNNING))
    record_lsp(ground, status(LspState.ERROR, error="x" * 2_000))

    told = [event["lsp"] for event in ground.events("lsp.changed")]
    assert [(one["type"], one["state"]) for one in told] == [
        ("state_changed", 1),
        ("state_changed", 2),
        ("diagnostics_changed", 2),
        ("diagnostics_changed", 2),
        ("state_changed", 3),
    ]
    assert [one.get("diagnostic_count") for one in told] == [None, None, 3, 0, None]
    assert [len(one.get("error", "")) for one in told] == [0, 0, 0, 0, 1_000]
    row = LanguageServer.objects.get()
    assert (row.connected_at, row.pid, row.error) == (None, 0, "x" * 1_000)


def test_a_process_that_has_not_started_it_leaves_anothers_server_alone(ground: Ground) -> None:
    record_lsp(ground, status(LspState.READY, is_connected=True, **RUNNING))
    record_lsp(ground, status(LspState.UNSTARTED))
    assert LanguageServer.objects.get().state == LspState.READY
    record_lsp(ground, status(LspState.STOPPED))
    record_lsp(ground, status(LspState.UNSTARTED))
    assert LanguageServer.objects.get().state == LspState.UNSTARTED
    record_lsp(ground, status(LspState.ERROR, **RUNNING))
    record_lsp(ground, status(LspState.UNSTARTED))
    assert LanguageServer.objects.get().state == LspState.UNSTARTED


def test_a_server_that_is_no_longer_configured_is_told_as_stopped(ground: Ground) -> None:
    record_lsp(ground, status(LspState.READY, diagnostic_count=2, **RUNNING))
    write(lambda tx: lsp_states.forget_server(tx, ground.workspace_id, "gopls"))
    assert ground.events("lsp.changed")[-1]["lsp"] == {
        "type": "state_changed",
        "name": "gopls",
        "state": 4,
    }
    assert not LanguageServer.objects.exists()
    write(lambda tx: lsp_states.forget_server(tx, ground.workspace_id, "gopls"))


def test_lost_language_servers_are_stopped_unless_they_run_again(ground: Ground) -> None:
    other = open_ground("/other")
    record_lsp(ground, status(LspState.READY, diagnostic_count=2, is_connected=True, **RUNNING))
    for name, state, pid in (("failed", LspState.ERROR, 8), ("never", LspState.STOPPED, 0)):
        given = ServerStatus(name, state, pid=pid, pid_started="8/1" if pid else "")
        record_lsp(ground, given)
    record_lsp(other, ServerStatus("gopls", LspState.STARTING, pid=9, pid_started="9/1"))
    lost = lsp_states.read_recorded(ground.workspace_id)
    assert sorted((one.name, one.pid) for one in lost) == [("failed", 8), ("gopls", 7)]
    everywhere = lsp_states.read_recorded(None)
    assert len(everywhere) == 3
    record_lsp(other, ServerStatus("gopls", LspState.READY, pid=9, pid_started="9/2"))
    count = len(ground.events("lsp.changed"))

    write(lambda tx: lsp_states.settle_lost(tx, everywhere))

    row = LanguageServer.objects.get(workspace_id=ground.workspace_id, name="gopls")
    assert (row.state, row.pid, row.pid_started) == (LspState.STOPPED, 0, "")
    assert (row.diagnostic_count, row.connected_at) == (0, None)
    failed = LanguageServer.objects.get(name="failed")
    assert (failed.state, failed.pid) == (LspState.ERROR, 0)
    assert len(ground.events("lsp.changed")) == count + 1
    again = LanguageServer.objects.get(workspace_id=other.workspace_id)
    assert (again.state, again.pid) == (LspState.READY, 9)
