"""The names that we use of the MCP package's inside are still there, as we call them."""

import importlib
import inspect

import pytest

NAMES = [
    ("mcp.client._probe", "negotiate_auto", ["session"], "agents/tools/mcp/connecting.py"),
    (
        "mcp.client._input_required",
        "run_input_required_driver",
        ["first", "dispatch", "retry"],
        "agents/tools/mcp/connection.py",
    ),
    ("mcp.client.session", "ClientSession.send_discover", [], "agents/tools/mcp/connecting.py"),
    (
        "mcp.client.session",
        "ClientSession._absorb_tool_listing",
        ["result", "complete"],
        "agents/tools/mcp/connecting.py",
    ),
]


@pytest.mark.parametrize(("module", "name", "parameters", "user"), NAMES)
def test_the_package_still_has_it(module: str, name: str, parameters: list[str], user: str) -> None:
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    assert found is not None, f"{module} has no {name} any more: {user} must be changed."
    taken = inspect.signature(found).parameters
    missing = [parameter for parameter in parameters if parameter not in taken]
    assert not missing, f"{module}.{name} takes no {missing} any more: {user} must be changed."
