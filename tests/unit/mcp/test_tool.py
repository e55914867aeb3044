"""An MCP tool's permission request, as clients print it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from agents.tools.mcp.contract import OfferedTool
from agents.tools.mcp.tools import McpTool
from tests.doubles.tool_context import make_tool_doubles


async def test_nested_values_are_shown_as_json(tmp_path: Path) -> None:
    offered = OfferedTool("send", "", {"type": "object"})
    tool = McpTool("mcp_a_send", offered, cast("Any", SimpleNamespace(name="a")))
    given = {"to": {"name": "Ö"}, "lines": [1, {"a": None}], "text": "hi", "times": 2, "now": True}
    question = await tool.required_permission(given, make_tool_doubles(tmp_path).context)
    assert question is not None
    assert question.params == {
        "to": '{"name":"Ö"}',
        "lines": '[1,{"a":null}]',
        "text": "hi",
        "times": 2,
        "now": True,
    }
