"""``mcp`` and ``lsp``: from what is written to what is started."""

from typing import Any

import pytest

from agents.config.problem import Problem
from agents.config.schema import check
from agents.config.sections.entry import ITEMS_LIMIT, SERVERS_LIMIT
from agents.config.sections.servers import language_servers, mcp_servers
from agents.config.settings import LspSettings, McpSettings

VARIABLES = {"TOKEN": "t0ken", "HOST": "mcp.example.org", "NUL": "a\0b", "LINE": "a\nb"}


def mcp(**entry: Any) -> tuple[McpSettings, list[str]]:
    problems: list[Problem] = []
    tree, misfits = check({"mcp": {"s": entry}})
    assert misfits == ()
    (server,) = mcp_servers(tree, lookup=VARIABLES.get, problems=problems).values()
    return server, [str(problem) for problem in problems]


def lsp(**entry: Any) -> tuple[LspSettings, list[str]]:
    problems: list[Problem] = []
    (server,) = language_servers(
        {"lsp": {"s": entry}}, lookup=VARIABLES.get, problems=problems
    ).values()
    return server, [str(problem) for problem in problems]


def test_a_command_is_a_stdio_server_with_everything_expanded():
    server, problems = mcp(
        command="$HOST",
        args=["--token", "${TOKEN}", "${NONE:-x}"],
        env={"A": "b-$TOKEN"},
        timeout=5,
    )
    assert problems == []
    assert (server.kind, server.command) == ("stdio", "mcp.example.org")
    assert server.args == ("--token", "t0ken", "x")
    assert server.env == {"A": "b-t0ken"}
    assert server.timeout_seconds == 5
    assert not server.is_disabled


@pytest.mark.parametrize(
    ("written", "kind"),
    [({}, "http"), ({"type": "http"}, "http"), ({"type": "SSE"}, "sse"),
     ({"type": "streamable-http"}, "http"), ({"type": "streamableHttp"}, "http")],
)  # fmt: skip
def test_a_url_is_an_http_server_unless_it_says_otherwise(written: dict, kind: str):
    server, problems = mcp(
        url="https://$HOST/mcp", headers={"Authorization": "Bearer $TOKEN"}, **written
    )
    assert problems == []
    assert (server.kind, server.url) == (kind, "https://mcp.example.org/mcp")
    assert server.headers == {"Authorization": "Bearer t0ken"}
    assert server.timeout_seconds == 15


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({}, "url: is missing (a server has a command or a url)"),
        ({"type": "stdio"}, "command: is missing"),
        ({"type": "http", "command": "x"}, "url: is missing (a server has a command or a url)"),
        ({"type": "pigeon", "url": "http://h"}, "type: must be stdio, http or sse"),
        ({"url": "file:///etc/passwd"}, "url: must be an http:// or https:// address"),
        ({"url": "https://$NONE/"}, "url: $NONE is not set"),
        ({"url": "http://h", "headers": {"X": "$NONE"}}, "headers.X: $NONE is not set"),
        ({"command": "$NONE"}, "command: $NONE is not set"),
        ({"command": "x", "args": ["a", "$NONE"]}, "args[1]: $NONE is not set"),
        ({"command": "x", "args": ["$(rm -rf /)"]}, "args[0]: $(…) is not run"),
        ({"command": "$NUL"}, "command: holds a NUL character"),
    ],
)
def test_a_server_that_cannot_be_started_is_disabled_and_says_why(entry: dict, fault: str):
    server, problems = mcp(**entry)
    assert server.is_disabled
    assert server.fault == fault
    assert problems == [f"mcp.s.{fault}"]


def test_a_variable_that_is_not_set_is_left_out_of_the_environment_and_told():
    server, problems = mcp(command="x", env={"A": "$NONE", "B": "$TOKEN", "C=D": "x"})
    assert server.env == {"B": "t0ken"}
    assert not server.is_disabled
    assert problems == [
        "mcp.s.env.A: is left out: $NONE is not set",
        "mcp.s.env.C=D: is not a valid variable",
    ]


def test_headers_that_are_none_are_left_out():
    headers = {"Good": "x", "Bad name": "x", "Line": "$LINE", "Empty": "${NONE:-}"}
    server, problems = mcp(url="http://h", headers=headers)
    assert server.headers == {"Good": "x"}
    assert problems == [
        "mcp.s.headers.Bad name: is not a valid header",
        "mcp.s.headers.Line: is not a valid header",
    ]


def test_one_that_is_off_is_not_complained_of():
    server, problems = mcp(disabled=True, url="$NONE", headers={"a b": "c"})
    assert (server.is_disabled, server.fault, problems) == (True, "", [])


def test_tools_and_oauth_are_read():
    server, problems = mcp(
        url="http://h",
        enabled_tools=["a"],
        disabled_tools=["b"],
        oauth=False,
        oauth_client_id="me",
        oauth_client_secret="$TOKEN",
        oauth_callback_port=70_000,
    )
    assert (server.enabled_tools, server.disabled_tools) == ({"a"}, {"b"})
    assert (server.oauth, server.oauth_client_id) == (False, "me")
    assert server.oauth_client_secret == "t0ken"
    assert server.oauth_callback_port == 0
    assert problems == ["mcp.s.oauth_callback_port: must be at most 65535"]


def test_sizes_are_bounded_and_told():
    server, problems = mcp(command="x", args=["a"] * 1_000, timeout=10_000_000)
    assert len(server.args) == ITEMS_LIMIT
    assert server.timeout_seconds == 3_600
    assert len(problems) == 1
    told: list[Problem] = []
    many = {"mcp": {f"s{number}": {"command": "x"} for number in range(1_000)}}
    assert len(mcp_servers(many, lookup=VARIABLES.get, problems=told)) == SERVERS_LIMIT
    assert [problem.key for problem in told] == ["mcp"]


def test_nothing_that_was_expanded_is_printed():
    server, _ = mcp(
        command="$TOKEN", args=["$TOKEN"], env={"A": "$TOKEN"}, oauth_client_secret="$TOKEN"
    )
    other, _ = mcp(url="http://$TOKEN/", headers={"A": "$TOKEN"})
    third, _ = lsp(command="$TOKEN", args=["$TOKEN"], env={"A": "$TOKEN"})
    assert "t0ken" not in repr((server, other, third))


def test_a_language_server_is_read():
    server, problems = lsp(
        command="gopls",
        args=["-x", "$TOKEN"],
        filetypes=[".go", "*.mod", "Go", " "],
        root_markers=["go.mod"],
        init_options={"a": 1},
        options={"b": 2},
        timeout=7,
    )
    assert problems == []
    assert server.args == ("-x", "t0ken")
    assert server.filetypes == ("go", "mod", "go")
    assert (server.root_markers, server.init_options, server.options) == (
        ("go.mod",), {"a": 1}, {"b": 2},
    )  # fmt: skip
    assert server.timeout_seconds == 7


def test_a_language_server_without_a_command_only_tunes_a_known_one():
    server, problems = lsp(disabled=True)
    assert (server.command, server.is_disabled, problems) == ("", True, [])
    server, problems = lsp(options={"a": 1})
    assert (server.command, server.is_disabled, problems) == ("", False, [])
    server, problems = lsp(command="$NONE")
    assert (server.is_disabled, server.fault) == (True, "command: $NONE is not set")
