"""The tools that ask language servers, and the diagnostics after an edit."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call, metadata_of, permission_request, results, run_call, until
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.lsp.seats import PATIENCE_SECONDS, PYRIGHT, READY, STARTING, sit

Connect = Callable[[Server], Client]
pytestmark = pytest.mark.timeout(600)


async def test_an_edit_reports_new_errors_to_the_model_and_the_clients(
    shared_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(shared_server), project_of(lsp={"py": PYRIGHT}))
    seat = place.seat
    session = await seat.workspace.session()
    await run_call(seat, session, call("view", file_path="shop.py"))
    await place.state("py", READY)
    result = await until(partial(_break, seat, session), "an edit hears of it", PATIENCE_SECONDS)
    assert result["is_error"] is False
    assert "Error: shop.py:7:12 [py basedpyright reportUndefinedVariable]" in result["content"]
    assert '"sum_of_it" is not defined' in result["content"]
    await place.state("py", STARTING)
    changed = await seat.stream.wait_for(
        lambda e: e.type == "lsp_event" and e.payload["type"] == "diagnostics_changed"
    )
    assert changed.payload["name"] == "py"
    assert changed.payload["diagnostic_count"] >= 1
    state = (await place.lsps())["py"]
    assert (state["name"], state["state"]) == ("py", READY)
    assert state["diagnostic_count"] >= 1
    assert "error" not in state
    assert state["connected_at"].startswith("20")
    repaired = await run_call(
        seat,
        session,
        call(
            "edit", file_path="shop.py", old_string="return sum_of_it", new_string="return amount"
        ),
    )
    assert "not defined" not in repaired["content"]


async def _break(seat: Seat, session: str) -> dict[str, Any] | None:
    """An edit that waited long enough for the checker; else the file is as before, and warm."""
    names = ("return amount", "return sum_of_it")
    for old, new in (names, names[::-1]):
        result = await run_call(
            seat, session, call("edit", file_path="shop.py", old_string=old, new_string=new)
        )
        if "<file_diagnostics>" in result["content"] and new == names[1]:
            return result
    await run_call(seat, session, call("lsp_diagnostics", file_path="shop.py"))
    return None


async def test_the_tools_answer_by_name(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}))
    session = await place.seat.workspace.session()

    async def result_of(name: str, **arguments: Any) -> dict[str, Any]:
        result = await run_call(place.seat, session, call(name, **arguments))
        assert result["is_error"] is False, result
        return result

    outline = (await result_of("lsp_symbols", file_path="shop.py"))["content"]
    assert "Class Basket (lines 1-3)" in outline
    assert "  Method total (lines 2-3)" in outline
    uses = (await result_of("lsp_references", symbol="tax"))["content"]
    assert "Found 4 references in 2 files" in uses
    assert "main.py:" in uses
    assert "Line 6, column 5: def tax(amount: int) -> int:" in uses
    # The letter before it is one in Python and two on the protocol's wire.
    assert "Line 5, column 32" in uses
    found = await result_of("lsp_definition", symbol="Basket.total", path="main.py")
    assert "shop.py:2" in found["content"]
    metadata = metadata_of(found)
    assert metadata["file_path"] == str(place.path / "shop.py")
    assert metadata["line"] == 2
    assert "def total" in metadata["content"]
    callers = (await result_of("lsp_call_hierarchy", symbol="tax"))["content"]
    assert "tax has 2 callers" in callers
    assert "main.py:4" in callers
    callees = (await result_of("lsp_call_hierarchy", symbol="main", direction="outgoing"))[
        "content"
    ]
    assert "shop.py:6 Function tax" in callees
    (place.path / "main.py").write_text("from shop import nothing_there\n")
    checked = await place.checked(session, "main.py", "nothing_there")
    assert "main.py: 1 error" in checked
    everywhere = (await result_of("lsp_diagnostics"))["content"]
    assert "<project_diagnostics>" in everywhere
    restarted = (await result_of("lsp_restart"))["content"]
    assert restarted == "Restarted py."


async def test_wrong_arguments_and_unknown_names_are_reported_to_the_model(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}))
    session = await place.seat.workspace.session()
    for name, arguments, sentence in (
        ("lsp_references", {}, "symbol is missing: a string is required."),
        ("lsp_rename", {"symbol": "tax"}, "new_name is missing: a string is required."),
        ("lsp_symbols", {"file_path": 3}, "file_path must be a string, not a number."),
        ("lsp_call_hierarchy", {"symbol": "tax", "direction": "up"}, "direction must be"),
        (
            "lsp_references",
            {"symbol": "no_such_name"},
            "no_such_name was not found in the workspace.",
        ),
        ("lsp_symbols", {"file_path": "/etc/passwd"}, "outside of the working directory"),
        ("lsp_restart", {"name": "other"}, "There is no language server 'other'"),
        ("lsp_replace_symbol", {"symbol": "tax", "file_path": "shop.py"}, "replacement is missing"),
    ):
        prompt = f"[[tool={name} {json.dumps(arguments)}]] [[n=3]]"
        result = await run_call(place.seat, session, prompt)
        assert result["is_error"] is True
        assert sentence in result["content"]


async def test_a_rename_needs_one_permission_and_changes_all_files(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}), yolo=False)
    seat, shop, main = place.seat, place.path / "shop.py", place.path / "main.py"
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, call("lsp_rename", symbol="tax", new_name="duty"))
    request = await permission_request(seat, session)
    assert (request["tool_name"], request["action"]) == ("lsp_rename", "write")
    assert request["path"] == str(place.path)
    assert set(request["params"]) == {"file_path", "old_content", "new_content"}
    assert "def tax(" in request["params"]["old_content"]
    assert "def duty(" in request["params"]["new_content"]
    assert "total(duty(2))" in request["params"]["new_content"]
    assert "tax" in shop.read_text()
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)
    result = results(await seat.workspace.messages(session))[-1]
    assert result["is_error"] is False, result
    assert "Renamed tax to duty in 2 files" in result["content"]
    assert metadata_of(result)["action"] == "rename"
    assert "tax" not in shop.read_text() + main.read_text()
    assert "print('\N{GRINNING FACE}', Basket().total(duty(2)))" in main.read_text()
    history = await seat.workspace.history(session)
    assert {(Path(f["Path"]).name, f["Version"]) for f in history} == {
        ("shop.py", 0),
        ("shop.py", 1),
        ("main.py", 0),
        ("main.py", 1),
    }


async def test_a_denied_rename_changes_nothing(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}), yolo=False)
    before = (place.path / "shop.py").read_text()
    session = await place.seat.workspace.session()
    await place.seat.workspace.prompt(session, call("lsp_rename", symbol="tax", new_name="duty"))
    await place.seat.workspace.grant(await permission_request(place.seat, session), "deny")
    await place.seat.stream.run_complete(session)
    assert (place.path / "shop.py").read_text() == before
    assert await place.seat.workspace.history(session) == []


async def test_a_symbol_is_replaced_by_its_name(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}))
    seat, shop = place.seat, place.path / "shop.py"
    session = await seat.workspace.session()
    replace = call(
        "lsp_replace_symbol",
        symbol="Basket.total",
        file_path="shop.py",
        replacement="def total(self, price: int) -> str:\n    return tax(price)",
    )
    unread = await run_call(seat, session, replace)
    assert unread["is_error"] is True
    assert "has not been read in this session" in unread["content"]
    before = shop.read_text()
    for _ in range(10):  # a change waits five seconds for the checker, which may be busy
        shop.write_text(before)
        await run_call(seat, session, call("view", file_path="shop.py"))
        await run_call(seat, session, call("lsp_diagnostics", file_path="shop.py"))  # it is warm
        await seat.workspace.skip_permissions(False)
        start = seat.stream.mark()
        await seat.workspace.prompt(session, replace)
        request = await permission_request(seat, session, start=start)
        assert request["action"] == "write"
        assert request["params"]["file_path"] == str(shop)
        assert request["params"]["old_content"] == before
        await seat.workspace.grant(request)
        await seat.stream.run_complete(session, start=start)
        result = results(await seat.workspace.messages(session))[-1]
        if "diagnostics>" in result["content"]:
            break
    assert "Replaced Basket.total in shop.py (+1 -1 lines)." in result["content"]
    assert 'is not assignable to return type "str"' in result["content"]
    assert metadata_of(result) == {
        "file_path": str(shop),
        "old_content": before,
        "new_content": shop.read_text(),
        "action": "replace",
    }
    assert (
        "    def total(self, price: int) -> str:\n        return tax(price)\n" in shop.read_text()
    )
