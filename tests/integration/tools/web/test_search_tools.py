"""The tools that search the web: what they return, and what they send."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from agents.tools.contract import (
    BadArguments,
    ChildResult,
    DelegatingTool,
    ToolOutcome,
    ToolRefusal,
)
from agents.tools.search.grep import GREP
from agents.tools.web.agentic_fetch import AgenticFetch
from agents.tools.web.sourcegraph import Sourcegraph
from agents.tools.web.web_fetch import WebFetch
from agents.tools.web.web_search import WebSearch
from tests.doubles.tool_context import ToolDoubles, make_tool_doubles
from tests.doubles.web_site import Site
from tests.integration.tools.calling import call, required_permission


def searching(doubles: ToolDoubles, site: Site) -> ToolDoubles:
    env = {**doubles.context.env, "CRUSH_WEB_SEARCH_URL": f"{site.url}/search"}
    return dataclasses.replace(
        doubles, context=dataclasses.replace(doubles.context, env=env, web_allowed_hosts=())
    )


async def test_web_search_tells_what_was_found(doubles: ToolDoubles, site: Site) -> None:
    doubles = searching(doubles, site)
    outcome = await call(WebSearch(), doubles, query="two  words & more")
    assert site.requests[0].query["q"] == "two words & more"
    assert outcome.content == (
        "1. First hit\n   https://example.org/first?a=1&b=2\n   What the first page says.\n\n"
        "2. Second\n   https://example.org/second"
    )
    assert "Second" not in (await call(WebSearch(), doubles, query="x", max_results=1)).content


async def test_web_search_says_why_there_is_nothing(doubles: ToolDoubles, site: Site) -> None:
    doubles = searching(doubles, site)
    assert "No results" in (await call(WebSearch(), doubles, query="nothing")).content
    with pytest.raises(ToolRefusal, match="human visitor"):
        await call(WebSearch(), doubles, query="robot")
    with pytest.raises(ToolRefusal, match="may have changed"):
        await call(WebSearch(), doubles, query="changed")
    with pytest.raises(BadArguments, match=r"^query"):
        WebSearch().parse({"query": "  "})


async def test_web_fetch_keeps_a_long_page_for_searching(
    doubles: ToolDoubles, site: Site, tmp_path: Path
) -> None:
    short = await call(WebFetch(), doubles, url=f"{site.url}/page")
    assert short.content.startswith(f"The title\n{site.url}/page\n\n# Heading")
    assert "Menu" not in short.content
    assert "Imprint" not in short.content
    long = await call(WebFetch(), doubles, url=f"{site.url}/long?n=5000")
    (file,) = tmp_path.iterdir()
    assert str(file.resolve()) in long.content
    assert len(long.content) < 2_000
    found = await call(GREP, doubles, pattern="paragraph 4999 ")
    assert "paragraph 4999 of many" in found.content
    await call(WebFetch(), doubles, url=f"{site.url}/long?n=5000")  # the same file again
    assert len(list(tmp_path.iterdir())) == 1
    assert await required_permission(WebFetch(), doubles, url=f"{site.url}/page") is None


async def test_agentic_fetch_sends_a_child_to_a_folder_of_its_own(doubles: ToolDoubles) -> None:
    tool = AgenticFetch()
    assert isinstance(tool, DelegatingTool)
    args = tool.parse({"url": "https://example.org/x", "prompt": "What is it?"})
    question = await tool.required_permission(args, doubles.context)
    assert question is not None
    assert (question.action, question.path) == ("fetch", str(doubles.context.working_dir))
    assert question.params == {"url": "https://example.org/x", "prompt": "What is it?"}
    task = await tool.delegate(args, doubles.context)
    assert task.kind == "fetch"
    assert "What is it?" in task.prompt
    assert "https://example.org/x" in task.prompt
    assert await tool.delegate(args, doubles.context) == task  # also after a restart
    folder = Path(task.working_dir)
    assert folder.stat().st_mode & 0o777 == 0o700
    # Its pages are found in a repository that ignores the data folder.
    (doubles.context.working_dir / ".git").mkdir()
    (doubles.context.working_dir / ".gitignore").write_text(".crush\n")
    (folder / "page-1.md").write_text("needle\n")
    child = dataclasses.replace(
        doubles, context=dataclasses.replace(doubles.context, working_dir=folder)
    )
    assert "needle" in (await call(GREP, child, pattern="needle")).content
    assert "needle" not in (await call(GREP, doubles, pattern="needle")).content


def test_agentic_fetch_tells_how_its_child_ended() -> None:
    tool = AgenticFetch()
    args = tool.parse({"prompt": "x"})
    assert tool.settle(args, ChildResult("completed", "The answer.")) == ToolOutcome("The answer.")
    for outcome in ("cancelled", "failed", "interrupted"):
        assert tool.settle(args, ChildResult(outcome, "", "no money")).is_error


async def test_agentic_fetch_refuses_what_is_no_url(doubles: ToolDoubles) -> None:
    tool = AgenticFetch()
    with pytest.raises(ToolRefusal, match="user name or password"):
        await tool.required_permission(
            tool.parse({"url": "http://a:b@example.org", "prompt": "x"}), doubles.context
        )
    with pytest.raises(BadArguments, match=r"^prompt"):
        tool.parse({"url": "http://example.org"})


async def test_sourcegraph_shows_lines_around_each_match(doubles: ToolDoubles, site: Site) -> None:
    env = {"SRC_ENDPOINT": f"{site.url}/", "SRC_ACCESS_TOKEN": "sgp_token"}
    doubles = dataclasses.replace(
        doubles, context=dataclasses.replace(doubles.context, env={**doubles.context.env, **env})
    )
    outcome = await call(Sourcegraph(), doubles, query="needle lang:go", count=5, context_window=2)
    assert "Found 2 matches; 1 files are shown." in outcome.content
    assert "github.com/a/b: src/x.go" in outcome.content
    shown = [line for line in outcome.content.splitlines() if "|line" in line]
    assert [line.strip() for line in shown] == [f"{n}|line {n}" for n in range(18, 23)]
    assert "narrow the query" in outcome.content
    (request,) = site.requests
    assert (request.method, request.path) == ("POST", "/.api/graphql")
    assert request.headers["Authorization"] == "token sgp_token"
    assert await required_permission(Sourcegraph(), doubles, query="x") is None
    with pytest.raises(ToolRefusal, match="no such filter"):
        await call(Sourcegraph(), doubles, query="broken")
    assert "No results" in (await call(Sourcegraph(), doubles, query="nothing")).content


async def test_sourcegraph_asks_before_a_query_leaves_the_machine(tmp_path: Path) -> None:
    tool = Sourcegraph()
    args = tool.parse({"query": "needle"})
    question = await tool.required_permission(args, make_tool_doubles(tmp_path).context)
    assert question is not None
    assert (question.tool_name, question.action) == ("sourcegraph", "search")
    assert question.path == str(tmp_path)
    assert question.params["query"] == "needle"
    own = make_tool_doubles(tmp_path, env={"SRC_ENDPOINT": "https://code.example.org"})
    assert await tool.required_permission(args, own.context) is None
