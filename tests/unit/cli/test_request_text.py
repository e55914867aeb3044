"""All of what a permission request would do is in the lines that a person reads."""

import json
from typing import Any

import pytest

from crushsite.cli.request_text import PermissionQuestion, heading_of, lines_of, scope_of


def question(tool: str, action: str, about: str = "", /, **params: Any) -> PermissionQuestion:
    return PermissionQuestion("q", tool, action, "/p", about, params)


def test_a_command_is_whole() -> None:
    command = "ls -la src   # look at the sources\nid > OWNED\n"
    asked = question(
        "bash",
        "execute",
        f"Execute command: {command}",
        command=command,
        description="Look",
        working_dir="",
        run_in_background=True,
        auto_background_after=0,
    )
    assert heading_of(asked) == "bash wants to execute in /p"
    assert lines_of(asked) == [
        "ls -la src   # look at the sources",
        "id > OWNED",
        "run_in_background: true",
    ]
    assert scope_of(asked) == ["s allows every such bash call in /p until the session ends"]


def test_a_request_for_trust_names_the_folder() -> None:
    asked = PermissionQuestion(
        "q", "trust", "trust", "/p\x1b", "It would start these programs: …", {}
    )
    assert heading_of(asked) == "The folder /p⟨ESC⟩ needs your trust"


def test_a_folder_cannot_hide_in_its_name() -> None:
    asked = PermissionQuestion("q", "bash", "execute", "/p\x1b[1A\n/q", "", {"command": "id"})
    assert heading_of(asked) == "bash wants to execute in /p⟨ESC⟩[1A⟨LF⟩/q"


def test_a_new_file_is_shown_with_its_content() -> None:
    asked = question(
        "write",
        "write",
        "Create file /p/a.sh",
        file_path="/p/a.sh",
        old_content="",
        new_content="#!/bin/sh\nid \n",
    )
    assert lines_of(asked) == [
        "Create file /p/a.sh",
        "@@ -0,0 +1,2 @@",
        "+#!/bin/sh",
        "+id⟨1 blank at the end⟩",
    ]


@pytest.mark.parametrize("tool", ["edit", "multiedit", "lsp_rename"])
def test_a_change_is_shown_as_a_diff(tool: str) -> None:
    before = "".join(f"{number}\n" for number in range(100))
    asked = question(
        tool,
        "write",
        "Change file /p/n",
        file_path="/p/n",
        old_content=before,
        new_content=before.replace("50\n", "fifty\x1b\n"),
    )
    lines = lines_of(asked)
    assert lines[:2] == ["Change file /p/n", "@@ -48,7 +48,7 @@"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-50", "+fifty⟨ESC⟩"]
    assert len(lines) == 10


def test_a_download_names_address_and_file() -> None:
    asked = question("download", "download", "Get", url="https://x/y", file_path="/p/y", timeout=0)
    assert lines_of(asked) == ["Get", "url: https://x/y", "file_path: /p/y"]


def test_arguments_of_an_mcp_tool_are_json() -> None:
    asked = question("mcp_db_run", "execute", "Call run", sql="drop\nall", deep='{"a":[1,false]}')
    assert lines_of(asked) == [
        "Call run",
        "{",
        '  "sql": "drop\\nall",',
        '  "deep": {',
        '    "a": [',
        "      1,",
        "      false",
        "    ]",
        "  }",
        "}",
    ]


def test_an_mcp_tool_cannot_pass_for_a_command() -> None:
    asked = question("mcp_db_run", "execute", "Call run", command="ls", other="rm -rf /")
    assert lines_of(asked)[1:] == ["{", '  "command": "ls",', '  "other": "rm -rf /"', "}"]


def test_lists_and_json_in_strings_are_spread_out() -> None:
    asked = question(
        "trust",
        "trust",
        "Trust this folder?\nIt would start 2 programs.",
        starts=["mcp x: sh -c 'id'", "hook: a\nb"],
        sends='{"mine":{"base_url":"http://evil"}}',
        note="two\nlines",
        odd='{"broken',
    )
    assert lines_of(asked) == [
        "Trust this folder?",
        "It would start 2 programs.",
        "starts:",
        "  - mcp x: sh -c 'id'",
        "  - hook: a⟨LF⟩b",
        "sends:",
        "  {",
        '    "mine": {',
        '      "base_url": "http://evil"',
        "    }",
        "  }",
        "note:",
        "  two",
        "  lines",
        'odd: {"broken',
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"do": "evil", "do": "good"}',
        '[{"a": {"do": "evil", "do": 1}}]',
        '{"n": 1' + "0" * 5000 + "}",
    ],
)
def test_json_that_would_lose_something_is_shown_as_it_is(text: str):
    for tool in ("mcp_x_run", "agent"):
        lines = lines_of(PermissionQuestion("1", tool, "run", "/p", "", {"text": text}))
        shown = json.loads("".join(lines))["text"] if tool == "mcp_x_run" else lines[0][6:]
        assert shown == text


def test_large_numbers_and_broken_characters_are_shown():
    params = {"n": 12345678901234567890123, "text": "a\ud800"}
    lines = lines_of(PermissionQuestion("1", "mcp_x_run", "run", "/p", "", params))
    assert '  "n": 12345678901234567890123,' in lines
    assert '  "text": "a⟨U+D800⟩"' in lines
