import ast
import re
from pathlib import Path

import pytest

from agents.tools import limits, registry
from agents.tools.contract import Repetition

ROOT = Path(__file__).parents[3]
README = (Path(registry.__file__).with_name("README.md")).read_text()


@pytest.mark.parametrize("name", sorted(registry.TOOLS))
def test_a_tool_tells_the_model_what_it_takes(name: str) -> None:
    spec = registry.TOOLS[name].spec
    assert spec.name == name
    assert len(spec.description) > 50
    assert spec.schema["type"] == "object"
    assert set(spec.schema.get("required", ())) <= spec.schema["properties"].keys()


def test_the_tools_are_those_of_the_wire() -> None:
    looking = {"agentic_fetch", "fetch", "glob", "grep", "ls", "sourcegraph", "view"}
    looking |= {"web_fetch", "web_search"}
    changing = {"bash", "download", "edit", "multiedit", "todos", "write"}
    assert looking | changing <= registry.TOOLS.keys()
    for name in looking | changing:
        assert (registry.TOOLS[name].repetition is Repetition.PURE) is (name in looking), name


def test_a_disabled_tool_is_left_out() -> None:
    left = registry.available(frozenset({"bash", "unknown"}))
    assert set(registry.TOOLS) - set(left) == {"bash"}


def test_tools_that_only_read_are_listed_in_one_table() -> None:
    lists = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in ("agents", "crushsite", "permissions")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Tuple | ast.List | ast.Set)
        and len(_texts(node) & {*registry.READ_ONLY, *registry.WEB_RESEARCH}) > 2
    ]
    assert {place.partition(":")[0] for place in lists} == {"agents/tools/registry.py"}, lists


def _texts(node: ast.Tuple | ast.List | ast.Set) -> set[str]:
    return {e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)}


def test_the_readme_states_the_limits() -> None:
    stated = README.partition("## Sizes and limits")[2].replace(",", "")
    mebibytes = {limits.MAX_TEXT_BYTES, limits.MAX_VIEW_BYTES}
    for name, value in vars(limits).items():
        if name.isupper():
            number = f"{value >> 20} MiB" if value in mebibytes else str(int(value))
            assert re.search(rf"\b{number}\b", stated), f"{name} = {number}"
