"""The documentation names everything there is: events, settings, commands, endpoints, files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from django.urls import URLPattern, URLResolver

from agents.api.stream_commands import COMMANDS
from agents.tools.lsp.tools import tools_of
from agents.tools.mcp.tools import ListMcpResources, ReadMcpResource
from agents.tools.registry import TOOLS
from crushsite import api_urls, rest_urls
from workspaces.log.types import Kind, StreamOnly

if TYPE_CHECKING:
    from agents.tools.lsp.workspace import WorkspaceServers

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
APPS = (
    "agents",
    "crushclient",
    "crushsite",
    "notifications",
    "people",
    "permissions",
    "workspaces",
)
READ = re.compile(r"""(?:read_\w+|environ\.get|\benv\.get)\(\s*["']([A-Z][A-Z0-9_]+)["']""")
# A process has these anyway.
EVERYWHERE = {"HOME", "PATH"}
PAGES = [
    ROOT / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(path for app in (*APPS, "tests") for path in (ROOT / app).rglob("README.md")),
]
LINK = re.compile(r"\]\(([^)#]+)(?:#[\w-]+)?\)")
MODULE = re.compile(r"`(?:[\w/]+/)?(\w+\.py)`")
FILE = re.compile(
    r"`((?:agents|crushclient|crushsite|people|permissions|workspaces|tests|docs|bin)/[\w./-]*)`"
)


def text(name: str) -> str:
    return (DOCS / name).read_text()


def settings_read() -> set[str]:
    sources = (path for app in APPS for path in (ROOT / app).rglob("*.py"))
    return {name for path in sources for name in READ.findall(path.read_text())} - EVERYWHERE


def endpoints(patterns: list[URLPattern | URLResolver], before: str = "/") -> Iterator[str]:
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from endpoints(pattern.url_patterns, address)
        elif str(pattern.pattern):  # else it answers every other address
            yield address


ENDPOINTS = {*endpoints(api_urls.urlpatterns), *endpoints(rest_urls.urlpatterns, "/api/")}


def shown(address: str) -> str:
    """As the page writes it: ``{w}`` for a workspace, ``{s}`` for a session."""
    address = address.replace("<str:workspace_id>", "{w}").replace("<str:session_id>", "{s}")
    return re.sub(r"<\w+:(\w+)>", r"{\1}", address)


@pytest.mark.parametrize("kind", [*Kind, *StreamOnly])
def test_every_event_is_in_the_table(kind: str) -> None:
    assert f"| `{kind}` |" in text("streams.md")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_socket_is_in_the_table(command: str) -> None:
    assert f"| `{command}` |" in text("streams.md")


@pytest.mark.parametrize("name", sorted(settings_read()))
def test_every_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in text("operations.md") + text("configuration.md") + text("command-line.md")


def test_the_settings_are_found() -> None:
    assert {"CRUSH_DATA_DIR", "DATABASE_URL", "CRUSH_SECRET_KEY", "CRUSH_POLL"} <= settings_read()


@pytest.mark.parametrize(
    "command",
    sorted(
        path.stem
        for app in (*APPS, "crushsite/client")
        for path in (ROOT / app / "management" / "commands").glob("[a-z]*.py")
    ),
)
def test_every_command_is_documented(command: str) -> None:
    pages = text("operations.md") + text("command-line.md")
    assert f"`manage.py {command.replace('_', '-')}" in pages


@pytest.mark.parametrize("address", sorted(ENDPOINTS))
def test_every_endpoint_is_in_the_table(address: str) -> None:
    assert f"| `{shown(address)}` |" in text("api.md")


def test_every_documented_endpoint_exists() -> None:
    streams = {"/v1/workspaces/{w}/events", "/api/workspaces/{w}/events"}
    streams |= {"/api/workspaces/{w}/stream"}
    documented = set(re.findall(r"^\| [\w, ]+ \| `(/[^`]+)` \|", text("api.md"), re.MULTILINE))
    assert documented == {shown(address) for address in ENDPOINTS} | streams


def arguments_of(schema: Mapping[str, Any]) -> str:
    """As the page writes them: `name`, and `name?` for one that may be left out."""
    required = schema.get("required", [])
    names = (name if name in required else f"{name}?" for name in schema.get("properties", {}))
    return ", ".join(f"`{name}`" for name in names)


def test_the_tables_of_tools_are_those_of_the_code() -> None:
    specs = [
        *(tool.spec for tool in TOOLS.values()),
        *(tool.spec for tool in tools_of(cast("WorkspaceServers", None)).values()),
        ListMcpResources.spec,
        ReadMcpResource.spec,
    ]
    documented = set(re.findall(r"^\| `(\w+)` \| (.*?) \| ", text("tools.md"), re.MULTILINE))
    assert documented == {(spec.name, arguments_of(spec.schema)) for spec in specs}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_its_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_it_names_exist(page: Path) -> None:
    for name in FILE.findall(page.read_text()):
        assert (ROOT / name).exists() or (page.parent / name).exists(), name


def modules() -> set[str]:
    return {
        path.name
        for folder in (*APPS, "tests", "examples")
        for path in (ROOT / folder).rglob("*.py")
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_modules_it_names_exist(page: Path) -> None:
    named = {name for name in MODULE.findall(page.read_text()) if "NAME" not in name}
    assert named - modules() == {"manage.py"} & named


ENTRY = re.compile(r"^- \*\*(.+?)\*\*.*\n(?:  .*\n)*", re.MULTILINE)
PATH = re.compile(
    r"`((?:agents|crushclient|crushsite|notifications|people|permissions|workspaces)/[\w./-]*)`"
)
NAME = re.compile(r"`([A-Z]\w+|[a-z]\w*_\w+)`")


@pytest.mark.parametrize(
    "entry", list(ENTRY.finditer(text("glossary.md"))), ids=lambda entry: entry[1]
)
def test_a_word_of_the_glossary_names_its_module(entry: re.Match[str]) -> None:
    places = [ROOT / name for name in PATH.findall(entry[0])]
    assert places
    files = [
        file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))
    ]
    sources = "".join(file.read_text() for file in files)
    assert [name for name in NAME.findall(entry[0]) if name not in sources] == []


def test_the_glossary_defines_a_word_once() -> None:
    # A word of two meanings has each in brackets behind it: "claim (of a run)".
    words = [
        line.partition(":")[0] for line in text("glossary.md").splitlines() if line[:4] == "- **"
    ]
    assert len(words) == len(set(words))
