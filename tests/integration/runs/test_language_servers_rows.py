"""What clients are told of language servers, and which rows outlive a process."""

from __future__ import annotations

import pytest

from agents.models import LanguageServer
from agents.runs.tool_servers import language_servers
from agents.tools.lsp.states import LanguageServerStatus as LspState
from agents.tools.lsp.states import ServerStatus
from tests.integration.runs.ground import Ground, open_ground, write
from workspaces.log.timestamps import now_ms


def record_lsp(ground: Ground, status: ServerStatus) -> None:
    write(lambda tx: language_servers.record_status(tx, ground.workspace_id, status))


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
    write(lambda tx: language_servers.forget_server(tx, ground.workspace_id, "gopls"))
    assert ground.events("lsp.changed")[-1]["lsp"] == {
        "type": "state_changed",
        "name": "gopls",
        "state": 4,
    }
    assert not LanguageServer.objects.exists()
    write(lambda tx: language_servers.forget_server(tx, ground.workspace_id, "gopls"))


def test_lost_language_servers_are_stopped_unless_they_run_again(ground: Ground) -> None:
    other = open_ground("/other")
    record_lsp(ground, status(LspState.READY, diagnostic_count=2, is_connected=True, **RUNNING))
    for name, state, pid in (("failed", LspState.ERROR, 8), ("never", LspState.STOPPED, 0)):
        given = ServerStatus(name, state, pid=pid, pid_started="8/1" if pid else "")
        record_lsp(ground, given)
    record_lsp(other, ServerStatus("gopls", LspState.STARTING, pid=9, pid_started="9/1"))
    lost = language_servers.read_recorded(ground.workspace_id)
    assert sorted((one.name, one.pid) for one in lost) == [("failed", 8), ("gopls", 7)]
    everywhere = language_servers.read_recorded(None)
    assert len(everywhere) == 3
    record_lsp(other, ServerStatus("gopls", LspState.READY, pid=9, pid_started="9/2"))
    count = len(ground.events("lsp.changed"))

    write(lambda tx: language_servers.settle_lost(tx, everywhere))

    row = LanguageServer.objects.get(workspace_id=ground.workspace_id, name="gopls")
    assert (row.state, row.pid, row.pid_started) == (LspState.STOPPED, 0, "")
    assert (row.diagnostic_count, row.connected_at) == (0, None)
    failed = LanguageServer.objects.get(name="failed")
    assert (failed.state, failed.pid) == (LspState.ERROR, 0)
    assert len(ground.events("lsp.changed")) == count + 1
    again = LanguageServer.objects.get(workspace_id=other.workspace_id)
    assert (again.state, again.pid) == (LspState.READY, 9)


@pytest.mark.parametrize(
    "changed",
    [
        {"error": "it broke"},
        {"diagnostic_count": 1},
        {"pid": 8},
        {"pid_started": "7/2"},
        {"is_connected": True},
        {},
    ],
)
def test_each_fact_of_a_language_server_is_told_when_it_changes(
    ground: Ground, changed: dict[str, object]
) -> None:
    record_lsp(ground, status(LspState.READY, **RUNNING))
    record_lsp(ground, status(LspState.READY, **{**RUNNING, **changed}))
    told = ground.events("lsp.changed")
    assert len(told) == (2 if changed else 1)
    row = LanguageServer.objects.get()
    assert (row.error, row.diagnostic_count) == (
        changed.get("error", ""),
        changed.get("diagnostic_count", 0),
    )
    assert row.pid == changed.get("pid", 7)
    assert (row.connected_at is not None) == changed.get("is_connected", False)


def test_the_moment_of_a_connection_is_kept_while_it_lasts(ground: Ground) -> None:
    before = now_ms()
    record_lsp(ground, status(LspState.READY, is_connected=True, **RUNNING))
    connected_at = LanguageServer.objects.get().connected_at
    assert connected_at is not None
    assert before <= connected_at <= now_ms()
    record_lsp(ground, status(LspState.STARTING, **RUNNING))
    assert LanguageServer.objects.get().connected_at is None


def test_the_first_record_of_a_language_server_is_told_whatever_it_is(ground: Ground) -> None:
    record_lsp(ground, status(LspState.UNSTARTED))
    (told,) = ground.events("lsp.changed")
    assert told["lsp"] == {"type": "state_changed", "name": "gopls", "state": 0}


@pytest.mark.parametrize("state", [LspState.STARTING, LspState.READY])
def test_a_server_that_lives_in_another_process_is_not_unstarted(
    ground: Ground, state: LspState
) -> None:
    record_lsp(ground, status(state, **RUNNING))
    record_lsp(ground, status(LspState.UNSTARTED))
    assert LanguageServer.objects.get().state == state
    # Without a process it does not live.
    record_lsp(ground, status(state))
    record_lsp(ground, status(LspState.UNSTARTED))
    assert LanguageServer.objects.get().state == LspState.UNSTARTED


def test_language_servers_of_other_names_and_workspaces_are_others(ground: Ground) -> None:
    other = open_ground("/other")
    for one in (ground, other):
        record_lsp(one, status(LspState.READY, **RUNNING))
    record_lsp(ground, ServerStatus("rust", LspState.STARTING))
    assert LanguageServer.objects.count() == 3
    record_lsp(ground, ServerStatus("rust", LspState.ERROR, error="no"))
    kept = LanguageServer.objects.get(workspace_id=ground.workspace_id, name="gopls")
    assert (kept.state, kept.error) == (LspState.READY, "")

    write(lambda tx: language_servers.forget_server(tx, ground.workspace_id, "gopls"))

    left = set(LanguageServer.objects.values_list("workspace_id", "name"))
    assert left == {(ground.workspace_id, "rust"), (other.workspace_id, "gopls")}
    assert len(other.events("lsp.changed")) == 1


def test_a_server_that_starts_or_has_a_process_may_have_been_left(ground: Ground) -> None:
    for name, state, pid in (
        ("starting", LspState.STARTING, 0),
        ("ready", LspState.READY, 0),
        ("failed", LspState.ERROR, 1),
        ("stopped", LspState.STOPPED, 0),
    ):
        record_lsp(ground, ServerStatus(name, state, pid=pid))
    found = language_servers.read_recorded(ground.workspace_id)
    assert sorted(one.name for one in found) == ["failed", "ready", "starting"]
    assert {one.workspace_id for one in found} == {ground.workspace_id}
    assert language_servers.read_recorded("another") == []

    write(lambda tx: language_servers.settle_lost(tx, found))

    states = dict(LanguageServer.objects.values_list("name", "state"))
    assert states == {
        "starting": LspState.STOPPED,
        "ready": LspState.STOPPED,
        "failed": LspState.ERROR,
        "stopped": LspState.STOPPED,
    }


def test_a_server_that_was_lost_is_told_as_stopped_without_its_figures(ground: Ground) -> None:
    record_lsp(ground, status(LspState.READY, diagnostic_count=2, **RUNNING))
    lost = language_servers.read_recorded(ground.workspace_id)
    LanguageServer.objects.create(workspace_id=ground.workspace_id, name="b", state=1, pid=7)
    gone = language_servers.RecordedLanguageServer(10**6, ground.workspace_id, "gone", 7, "7/1")
    write(lambda tx: language_servers.settle_lost(tx, [gone, *lost]))
    assert ground.events("lsp.changed")[-1]["lsp"] == {
        "type": "state_changed",
        "name": "gopls",
        "state": 4,
    }
    assert LanguageServer.objects.get(name="b").pid == 7
    other = language_servers.read_recorded(ground.workspace_id)
    LanguageServer.objects.filter(name="b").update(pid=8)
    write(lambda tx: language_servers.settle_lost(tx, other))
    assert LanguageServer.objects.get(name="b").state == LspState.STARTING
