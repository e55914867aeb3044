from typing import Any

import pytest

from agents.tools.lsp.handshake import ServerCapabilities, setting_of


@pytest.mark.parametrize("raw", [{}, {"textDocumentSync": "x", "positionEncoding": 5}, {"a": None}])
def test_nothing_is_believed_of_an_odd_answer(raw: dict[str, Any]) -> None:
    told = ServerCapabilities(raw)
    assert told.encoding == "utf-16"
    assert not told.takes_changes
    assert not told.requires_saves
    assert not told.has("a")
    assert told.pull_identifier is None


def test_both_ways_to_tell_of_changes_are_understood() -> None:
    assert ServerCapabilities({"textDocumentSync": 2}).takes_changes
    full = ServerCapabilities({"textDocumentSync": {"change": 1, "save": {"includeText": False}}})
    assert full.takes_changes
    assert full.requires_saves
    assert ServerCapabilities({"x": {}}).has("x")
    assert not ServerCapabilities({"x": False}).has("x")
    assert ServerCapabilities({}, {"textDocument/diagnostic"}).has("d", "textDocument/diagnostic")


def test_settings_are_found_by_dotted_names() -> None:
    options = {"python": {"analysis": {"mode": "strict"}}, "a.b": 1}
    assert setting_of(options, "python.analysis") == {"mode": "strict"}
    assert setting_of(options, "a.b") == 1
    assert setting_of(options, "python.none") is None
    assert setting_of(options, None) == options
