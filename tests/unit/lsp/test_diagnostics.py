import asyncio
from typing import Any

from agents.tools.lsp.diagnostics import DiagnosticStore, Severity
from agents.tools.lsp.reports import ReportedDiagnostic, diagnostics_section, diagnostics_summary


def item(message: str = "m", *, line: int = 0, severity: Any = 1, **more: Any) -> dict[str, Any]:
    place = {"line": line, "character": 2}
    return {
        "range": {"start": place, "end": place},
        "message": message,
        "severity": severity,
        **more,
    }


def store() -> tuple[DiagnosticStore, list[int]]:
    changes: list[int] = []
    made = DiagnosticStore(lambda: changes.append(1))
    return made, changes


def test_what_is_told_replaces_what_was_and_is_counted() -> None:
    kept, changes = store()
    kept.update("/a", [item("one"), item("two")])
    kept.update("/b", [item("three")])
    assert kept.count == 3
    kept.update("/a", [item("one")])
    kept.update("/a", [item("one")])
    assert (kept.count, len(changes)) == (2, 3)  # the last told nothing new
    kept.update("/a", [])
    assert set(kept.all()) == {"/b"}


def test_what_has_not_the_shape_of_one_is_left_out() -> None:
    kept, _ = store()
    odd: list[Any] = [
        7,
        {"message": "no range"},
        item(line=-1),
        item(line=2**40),
        item(line=True),
        {**item(), "message": 5},
        item("kept", severity="high", code=[1], source=5, tags="x", data={"big": 1}),
    ]
    kept.update("/a", odd)
    (found,) = kept.of("/a")
    assert found.severity is Severity.ERROR
    place = {"line": 0, "character": 2}
    assert found.wire == {
        "range": {"start": place, "end": place},
        "message": "kept",
        "severity": 1,
    }


def test_texts_can_be_stored_and_are_cut() -> None:
    kept, _ = store()
    kept.update(
        "/a", [item("a\0b\ud800" + "x" * 10_000, code="c" * 999, source="s", tags=[1, 2, 9])]
    )
    (found,) = kept.of("/a")
    assert "\0" not in found.message
    found.message.encode()
    assert len(found.message) == 4_000
    assert len(found.code) == 200
    assert found.wire["tags"] == [1, 2]


def test_a_server_cannot_fill_the_memory() -> None:
    kept, _ = store()
    kept.update("/a", [item(line=n) for n in range(10_000)])
    assert kept.count == 500
    for number in range(2_500):
        kept.update(f"/{number}", [item()])
    assert len(kept.all()) == 2_000
    assert kept.count == sum(map(len, kept.all().values()))


async def test_one_waits_for_what_belongs_to_a_version() -> None:
    kept, _ = store()
    kept.update("/a", [], 1)
    waiting = asyncio.ensure_future(kept.wait_newer("/a", times=kept.times("/a"), version=3))
    await asyncio.sleep(0)
    kept.update("/a", [], 2)  # of an earlier change
    kept.update("/b", [], 3)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    kept.update("/a", [item()], 3)
    await waiting
    await kept.wait_newer("/a", times=0, version=3)  # it is there already
    unversioned = asyncio.ensure_future(kept.wait_newer("/b", times=1, version=9))
    await asyncio.sleep(0)
    kept.update("/b", [])
    await unversioned


def test_errors_come_first_and_each_is_one_line() -> None:
    kept, _ = store()
    kept.update("/p/a.py", [item("second", severity=2), item("first\n  of all", line=4, code="E1")])
    told = [ReportedDiagnostic("a.py", "ls", diagnostic) for diagnostic in kept.of("/p/a.py")]
    assert diagnostics_section("file_diagnostics", told, most=10) == (
        "<file_diagnostics>\n"
        "Error: a.py:5:3 [ls E1] first of all\n"
        "Warn: a.py:1:3 [ls] second\n"
        "</file_diagnostics>"
    )
    assert diagnostics_section("d", told, most=1).endswith("first of all\n... and 1 more\n</d>")
    assert diagnostics_section("d", [], most=1) == ""
    assert diagnostics_summary("a.py", told) == "a.py: 1 error, 1 warning"
