"""The web tools against a site on loopback: what they return, and what they refuse."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import time
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from agents.tools.agentic_fetch import AgenticFetch
from agents.tools.contract import (
    BadArguments,
    ChildEnded,
    ErrandTool,
    Question,
    ToolOutcome,
    ToolRefusal,
)
from agents.tools.download import Download
from agents.tools.fetch import Fetch
from agents.tools.grep import GREP
from agents.tools.limits import FETCH_CHARS, MAX_PAGE_BYTES
from agents.tools.sourcegraph import Sourcegraph
from agents.tools.web.access import Access
from agents.tools.web.addresses import Address
from agents.tools.web.fetching import Request, Web, asked
from agents.tools.web_fetch import WebFetch
from agents.tools.web_search import WebSearch
from tests.doubles.tool_context import Desk, make_desk
from tests.doubles.web_site import Site, web_site


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with web_site() as running:
        yield running


@pytest.fixture
def desk(tmp_path: Path, site: Site) -> Desk:
    """Whose configuration lets it reach the site."""
    return allowed(make_desk(tmp_path), f"127.0.0.1:{site.port}")


def allowed(desk: Desk, *hosts: str) -> Desk:
    return dataclasses.replace(
        desk, context=dataclasses.replace(desk.context, web_allowed_hosts=hosts)
    )


async def call(tool: Any, desk: Desk, **given: Any) -> ToolOutcome:
    outcome: ToolOutcome = await tool.run(tool.parse(given), desk.context)
    return outcome


async def ask(tool: Any, desk: Desk, **given: Any) -> Question | None:
    question: Question | None = await tool.question(tool.parse(given), desk.context)
    return question


async def fetch(desk: Desk, url: str, form: str = "markdown", **more: Any) -> str:
    return (await call(Fetch(), desk, url=url, format=form, **more)).content


# -- fetch


async def test_fetch_makes_markdown(desk: Desk, site: Site) -> None:
    told = await fetch(desk, f"{site.url}/page#part")
    assert "# Heading" in told
    assert f"Some **bold** words and a [link]({site.url}/other?x=1)." in told
    assert "- one\n- two" in told
    assert "| a | b |" in told
    assert "x = 1\ny = 2" in told
    for unwanted in ("alert", "p {}", "remark", "base64"):
        assert unwanted not in told


async def test_fetch_makes_text_and_gives_the_source(desk: Desk, site: Site) -> None:
    text = await fetch(desk, f"{site.url}/page", "text")
    assert "Heading\nSome\nbold\nwords" in text
    assert "<" not in text
    assert "alert" not in text
    assert "<script>" in await fetch(desk, f"{site.url}/page", "html")


async def test_fetch_gives_what_is_no_html_as_it_is(desk: Desk, site: Site) -> None:
    assert await fetch(desk, f"{site.url}/text") == "plain <b>words</b>\n"
    assert await fetch(desk, f"{site.url}/json", "text") == '{"a": 1}'


@pytest.mark.parametrize("path", ["gzip", "deflate", "raw-deflate"])
async def test_it_unpacks(desk: Desk, site: Site, path: str) -> None:
    assert "# Heading" in await fetch(desk, f"{site.url}/{path}")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("broken-gzip", "packed and broken"),
        ("cut-gzip", "broke off"),
        ("brotli", "not asked for"),
        ("status?code=404", "status 404 Not Found"),
        ("status?code=500", "status 500"),
        ("status?code=799", "status 799"),
        ("round", "redirects"),
        ("go?to=ftp://127.0.0.1/x", "Only http and https"),
        ("go?to=file:///etc/passwd", "Only http and https"),
        ("go?to=http://me:secret@127.0.0.1/", "account"),
        ("go?to=http://[::1", "cannot be understood"),
        ("bytes?type=image/png&hex=89504e470d0a", "image/png. Use download"),
        ("bytes?type=text/plain&hex=7f454c460000", "not text"),
        ("claims?n=5000", "did not answer well"),
    ],
)
async def test_it_says_why_there_is_no_page(
    desk: Desk, site: Site, path: str, sentence: str
) -> None:
    with pytest.raises(ToolRefusal, match=sentence) as refusal:
        await fetch(desk, f"{site.url}/{path}")
    assert "secret" not in str(refusal.value)
    assert "own words" not in str(refusal.value)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_it_follows_a_redirect(desk: Desk, site: Site, code: int) -> None:
    assert "plain" in await fetch(desk, f"{site.url}/go?code={code}&to=/text")


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", "caf\u00e9".encode("latin-1"), "café"),
        ("text/plain", "caf\u00e9".encode("latin-1"), "café"),
        ("text/plain", "漢字".encode(), "漢字"),
        ("text/plain; charset=shift_jis", "漢字".encode("shift_jis"), "漢字"),
        ("text/plain; charset=zlib", b"words", "words"),
        ("text/plain; charset=unicode_escape", rb"\u0041", r"\u0041"),
        ("text/plain", "\ufeffwide".encode("utf-16-le"), "wide"),
        ("text/html", b'<meta charset="koi8-r">' + "слово".encode("koi8-r"), "слово"),
    ],
)
async def test_it_reads_the_web_s_encodings(
    desk: Desk, site: Site, content_type: str, body: bytes, text: str
) -> None:
    url = f"{site.url}/bytes?type={quote(content_type)}&hex={body.hex()}"
    assert await fetch(desk, url) == text


async def test_a_long_page_is_cut(desk: Desk, site: Site) -> None:
    told = await fetch(desk, f"{site.url}/long?n=10000")
    assert "more characters were left out" in told
    assert len(told) < FETCH_CHARS + 200
    told = await fetch(desk, f"{site.url}/big?n=200", "html")
    assert f"{MAX_PAGE_BYTES:,} bytes were read" in told


async def test_a_bomb_is_not_unpacked(desk: Desk, site: Site) -> None:
    with pytest.raises(ToolRefusal, match="not text"):
        await fetch(desk, f"{site.url}/bomb")


async def test_a_page_that_nests_for_ever_comes_as_text(desk: Desk, site: Site) -> None:
    assert await fetch(desk, f"{site.url}/nested?n=20000") == "deep"


@pytest.mark.parametrize("path", ["hang", "drip"])
async def test_it_does_not_wait_for_ever(desk: Desk, site: Site, path: str) -> None:
    began = time.monotonic()
    with pytest.raises(ToolRefusal, match="longer than 1 seconds"):
        await fetch(desk, f"{site.url}/{path}", timeout=1)
    assert time.monotonic() - began < 5


async def test_a_cancel_ends_it(desk: Desk, site: Site) -> None:
    task = asyncio.create_task(fetch(desk, f"{site.url}/hang"))
    while not site.asked:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_fetch_asks_with_its_arguments(desk: Desk, site: Site) -> None:
    question = await ask(Fetch(), desk, url=f"{site.url}/page", format="text", timeout=500)
    assert question == Question(
        tool_name="fetch",
        action="fetch",
        path=str(desk.context.working_dir),
        description=f"Fetch content from URL: {site.url}/page",
        params={"url": f"{site.url}/page", "format": "text", "timeout": 120},
    )
    assert site.asked == []


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("example.org/x", "must begin with"),
        ("file:///etc/passwd", "must begin with"),
        ("gopher://example.org", "must begin with"),
        ("http://me:secret@example.org/", "account"),
        ("https:///path", "no host"),
        ("http://example.org:99999/", "cannot be understood"),
        ("http://[::1%25eth0]/", "no host"),
        ("http://exa mple.org/", "white space"),
        ("http://" + "a" * 9000, "too long"),
    ],
)
async def test_it_asks_nobody_about_what_is_no_url(desk: Desk, url: str, sentence: str) -> None:
    tool = Fetch()
    with pytest.raises((ToolRefusal, BadArguments), match=sentence) as refusal:
        await tool.question(tool.parse({"url": url, "format": "text"}), desk.context)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "given",
    [{"url": "http://x"}, {"format": "text"}, {"url": "http://x", "format": "pdf"}, {"url": 7}],
)
def test_fetch_names_the_field_that_does_not_fit(given: dict[str, Any]) -> None:
    with pytest.raises(BadArguments, match=r"^(url|format) "):
        Fetch().parse(given)


# -- private networks


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "169.254.169.254",
        "10.0.0.1",
        "100.64.0.1",
        "[fe80::1]",
        "[fd00::1]",
    ],
)
async def test_it_reaches_nothing_private(tmp_path: Path, site: Site, host: str) -> None:
    desk = make_desk(tmp_path)
    with pytest.raises(ToolRefusal, match="private network"):
        await fetch(desk, f"http://{host}:{site.port}/text")
    with pytest.raises(ToolRefusal, match="private network"):
        await call(Download(), desk, url=f"http://{host}:{site.port}/text", file_path="f")
    with pytest.raises(ToolRefusal, match="private network"):
        await call(WebFetch(), desk, url=f"http://{host}:{site.port}/text")
    assert site.asked == []
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("entry", ["127.0.0.1:{port}", "127.0.0.0/8", "127.0.0.1", "*"])
async def test_configuration_lets_through(tmp_path: Path, site: Site, entry: str) -> None:
    desk = allowed(make_desk(tmp_path), entry.format(port=site.port))
    assert "plain" in await fetch(desk, f"{site.url}/text")


async def test_configuration_lets_a_name_through(tmp_path: Path, site: Site) -> None:
    url = f"http://localhost:{site.port}/text"
    assert "plain" in await fetch(allowed(make_desk(tmp_path), "localhost"), url)
    with pytest.raises(ToolRefusal, match="private"):
        await fetch(allowed(make_desk(tmp_path), f"localhost:{site.port + 1}"), url)


async def test_a_redirect_to_a_private_address_is_refused(desk: Desk, site: Site) -> None:
    async with web_site() as inner:  # another port, which is not listed
        with pytest.raises(ToolRefusal, match="private network"):
            await fetch(desk, f"{site.url}/go?to={inner.url}/text")
        with pytest.raises(ToolRefusal, match="private network"):
            await fetch(desk, f"{site.url}/go?to=//localhost:{inner.port}/text")
        assert inner.asked == []


class Names:
    """A name service that answers as it is told, one answer after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.asked += 1
        if not self.answers:
            raise OSError("unknown")
        return [ip_address(written) for written in self.answers.pop(0)]


async def body_of(web: Web, url: str) -> bytes:
    async with asked(web, Request(url)) as answer:
        return (await answer.read(1_000_000))[0]


async def test_a_name_is_looked_up_once_and_connected_to_there(site: Site) -> None:
    """What a second answer would say does not matter: rebinding has no second question."""
    names = Names(["127.0.0.1"], ["192.0.2.1"])
    web = Web(Access(["127.0.0.1"]), lookup=names)
    assert await body_of(web, f"http://pages.test:{site.port}/text") == b"plain <b>words</b>\n"
    assert names.asked == 1
    assert site.asked[0].headers["Host"] == f"pages.test:{site.port}"


@pytest.mark.parametrize("answers", [["10.0.0.7"], ["93.184.216.34", "10.0.0.7"], ["::1"]])
async def test_a_name_that_leads_into_a_private_network_is_refused(answers: list[str]) -> None:
    web = Web(Access(), lookup=Names(answers))
    with pytest.raises(ToolRefusal, match=r"pages\.test leads into a private") as refusal:
        await body_of(web, "http://pages.test/")
    assert "10.0.0.7" not in str(refusal.value)


async def test_an_unknown_name_is_told() -> None:
    with pytest.raises(ToolRefusal, match="not known"):
        await body_of(Web(Access(), lookup=Names()), "http://pages.test/")


async def test_a_proxy_gets_what_its_own_names_lead_to(site: Site) -> None:
    """The site is asked for a whole URL, as a proxy is."""
    env = {"http_proxy": f"http://user:pw@127.0.0.1:{site.port}"}
    web = Web(Access(), env, lookup=Names())
    assert b"plain" in await body_of(web, "http://far.test/text")
    assert site.asked[0].headers["Host"] == "far.test"
    for answers in (["10.0.0.7"], ["127.0.0.1"]):
        with pytest.raises(ToolRefusal, match="private"):
            await body_of(Web(Access(), env, lookup=Names(answers)), "http://far.test/text")
    with pytest.raises(ToolRefusal, match="private"):
        await body_of(Web(Access(), env, lookup=Names()), "http://10.0.0.7/text")
    assert len(site.asked) == 1
    assert "pw" not in repr(web)


async def test_a_dead_proxy_s_account_is_not_told(unused_tcp_port: int) -> None:
    env = {"http_proxy": f"http://user:sesame@127.0.0.1:{unused_tcp_port}"}
    with pytest.raises(ToolRefusal) as refusal:
        await body_of(Web(Access(), env, lookup=Names()), "http://far.test/text")
    assert "sesame" not in str(refusal.value)


async def test_it_leaves_nothing_open(desk: Desk, site: Site) -> None:
    await asyncio.gather(*(fetch(desk, f"{site.url}/text") for _ in range(20)))
    # Sessions and connections are closed, or collecting them would warn, which fails.
    gc.collect()


# -- download


async def test_download_saves_the_bytes_and_counts_as_read(
    desk: Desk, site: Site, tmp_path: Path
) -> None:
    outcome = await call(Download(), desk, url=f"{site.url}/sized?n=3000000", file_path="new/a.zip")
    path = tmp_path.resolve() / "new" / "a.zip"
    assert path.read_bytes() == b"y" * 3_000_000
    assert "3,000,000 bytes, application/zip" in outcome.content
    assert desk.files.marks[str(path)].size == 3_000_000
    assert desk.progress[-1] == "Downloaded 3.0 of 3.0 MB\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.zip"]
    # It was written in this session, so it may be replaced, and keeps its mode.
    path.chmod(0o640)
    desk.files.marks[str(path)] = dataclasses.replace(desk.files.marks[str(path)])
    await call(Download(), desk, url=f"{site.url}/text", file_path="new/a.zip")
    assert path.read_text() == "plain <b>words</b>\n"
    assert path.stat().st_mode & 0o777 == 0o640


async def test_download_tells_how_far_it_is(desk: Desk, site: Site) -> None:
    outcome = asyncio.create_task(
        call(Download(), desk, url=f"{site.url}/drip", file_path="f", timeout=2)
    )
    with pytest.raises(ToolRefusal, match="longer than 2 seconds"):
        await outcome
    assert desk.progress
    assert desk.progress[0].startswith("Downloaded 0.0 MB")


async def test_download_asks_for_the_file(desk: Desk, site: Site, tmp_path: Path) -> None:
    given = {"url": f"{site.url}/text", "file_path": "a"}
    question = await ask(Download(), desk, **given)
    assert question is not None
    assert (question.action, question.path) == ("download", str(tmp_path.resolve() / "a"))
    assert question.params == {**given, "timeout": 0}
    assert site.asked == []


async def test_download_replaces_no_file_that_was_not_read(
    desk: Desk, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(ToolRefusal, match="not read in this session"):
        await ask(Download(), desk, url=f"{site.url}/text", file_path="a")
    with pytest.raises(ToolRefusal, match="not read in this session"):
        await call(Download(), desk, url=f"{site.url}/text", file_path="a")
    assert (tmp_path / "a").read_text() == "mine"
    assert site.asked == []


@pytest.mark.parametrize("path", ["big?n=2000", "sized?n=100000001", "claims?n=200000000"])
async def test_download_takes_no_more_than_its_limit(
    desk: Desk, site: Site, tmp_path: Path, path: str
) -> None:
    with pytest.raises(ToolRefusal, match="larger than 100,000,000 bytes"):
        await call(Download(), desk, url=f"{site.url}/{path}", file_path="f")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["claims?n=5000", "status?code=403", "cut-gzip"])
async def test_half_a_download_leaves_nothing(
    desk: Desk, site: Site, tmp_path: Path, path: str
) -> None:
    with pytest.raises(ToolRefusal):
        await call(Download(), desk, url=f"{site.url}/{path}", file_path="f")
    assert list(tmp_path.iterdir()) == []


async def test_a_cancelled_download_leaves_nothing(desk: Desk, site: Site, tmp_path: Path) -> None:
    task = asyncio.create_task(call(Download(), desk, url=f"{site.url}/drip", file_path="f"))
    while not list(tmp_path.iterdir()):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(tmp_path.iterdir()) == []


# -- web_search, web_fetch, agentic_fetch, sourcegraph


def searching(desk: Desk, site: Site) -> Desk:
    env = {**desk.context.env, "CRUSH_WEB_SEARCH_URL": f"{site.url}/search"}
    return dataclasses.replace(
        desk, context=dataclasses.replace(desk.context, env=env, web_allowed_hosts=())
    )


async def test_web_search_tells_what_was_found(desk: Desk, site: Site) -> None:
    desk = searching(desk, site)
    outcome = await call(WebSearch(), desk, query="two  words & more")
    assert site.asked[0].query["q"] == "two words & more"
    assert outcome.content == (
        "1. First hit\n   https://example.org/first?a=1&b=2\n   What the first page says.\n\n"
        "2. Second\n   https://example.org/second"
    )
    assert "Second" not in (await call(WebSearch(), desk, query="x", max_results=1)).content


async def test_web_search_says_why_there_is_nothing(desk: Desk, site: Site) -> None:
    desk = searching(desk, site)
    assert "No results" in (await call(WebSearch(), desk, query="nothing")).content
    with pytest.raises(ToolRefusal, match="see a person"):
        await call(WebSearch(), desk, query="robot")
    with pytest.raises(ToolRefusal, match="may have changed"):
        await call(WebSearch(), desk, query="changed")
    with pytest.raises(BadArguments, match=r"^query"):
        WebSearch().parse({"query": "  "})


async def test_web_fetch_keeps_a_long_page_for_searching(
    desk: Desk, site: Site, tmp_path: Path
) -> None:
    short = await call(WebFetch(), desk, url=f"{site.url}/page")
    assert short.content.startswith(f"The title\n{site.url}/page\n\n# Heading")
    assert "Menu" not in short.content
    assert "Imprint" not in short.content
    long = await call(WebFetch(), desk, url=f"{site.url}/long?n=5000")
    (file,) = tmp_path.iterdir()
    assert str(file.resolve()) in long.content
    assert len(long.content) < 2_000
    found = await call(GREP, desk, pattern="paragraph 4999 ")
    assert "paragraph 4999 of many" in found.content
    await call(WebFetch(), desk, url=f"{site.url}/long?n=5000")  # the same file again
    assert len(list(tmp_path.iterdir())) == 1
    assert await ask(WebFetch(), desk, url=f"{site.url}/page") is None


async def test_agentic_fetch_sends_a_child_to_a_folder_of_its_own(desk: Desk) -> None:
    tool = AgenticFetch()
    assert isinstance(tool, ErrandTool)
    args = tool.parse({"url": "https://example.org/x", "prompt": "What is it?"})
    question = await tool.question(args, desk.context)
    assert question is not None
    assert (question.action, question.path) == ("fetch", str(desk.context.working_dir))
    assert question.params == {"url": "https://example.org/x", "prompt": "What is it?"}
    task = await tool.errand(args, desk.context)
    assert task.kind == "fetch"
    assert "What is it?" in task.prompt
    assert "https://example.org/x" in task.prompt
    assert await tool.errand(args, desk.context) == task  # also after a restart
    folder = Path(task.working_dir)
    assert folder.stat().st_mode & 0o777 == 0o700
    # Its pages are found in a repository that ignores the data folder.
    (desk.context.working_dir / ".git").mkdir()
    (desk.context.working_dir / ".gitignore").write_text(".crush\n")
    (folder / "page-1.md").write_text("needle\n")
    child = dataclasses.replace(desk, context=dataclasses.replace(desk.context, working_dir=folder))
    assert "needle" in (await call(GREP, child, pattern="needle")).content
    assert "needle" not in (await call(GREP, desk, pattern="needle")).content


def test_agentic_fetch_tells_how_its_child_ended() -> None:
    tool = AgenticFetch()
    args = tool.parse({"prompt": "x"})
    assert tool.settle(args, ChildEnded("completed", "The answer.")) == ToolOutcome("The answer.")
    for outcome in ("cancelled", "failed", "interrupted"):
        assert tool.settle(args, ChildEnded(outcome, "", "no money")).is_error


async def test_agentic_fetch_refuses_what_is_no_url(desk: Desk) -> None:
    tool = AgenticFetch()
    with pytest.raises(ToolRefusal, match="account"):
        await tool.question(
            tool.parse({"url": "http://a:b@example.org", "prompt": "x"}), desk.context
        )
    with pytest.raises(BadArguments, match=r"^prompt"):
        tool.parse({"url": "http://example.org"})


async def test_sourcegraph_shows_lines_around_each_match(desk: Desk, site: Site) -> None:
    env = {"SRC_ENDPOINT": f"{site.url}/", "SRC_ACCESS_TOKEN": "sgp_token"}
    desk = dataclasses.replace(
        desk, context=dataclasses.replace(desk.context, env={**desk.context.env, **env})
    )
    outcome = await call(Sourcegraph(), desk, query="needle lang:go", count=5, context_window=2)
    assert "Found 2 matches; 1 files are shown." in outcome.content
    assert "github.com/a/b: src/x.go" in outcome.content
    shown = [line for line in outcome.content.splitlines() if "|line" in line]
    assert [line.strip() for line in shown] == [f"{n}|line {n}" for n in range(18, 23)]
    assert "narrow the query" in outcome.content
    (request,) = site.asked
    assert (request.method, request.path) == ("POST", "/.api/graphql")
    assert request.headers["Authorization"] == "token sgp_token"
    assert await ask(Sourcegraph(), desk, query="x") is None
    with pytest.raises(ToolRefusal, match="no such filter"):
        await call(Sourcegraph(), desk, query="broken")
    assert "No results" in (await call(Sourcegraph(), desk, query="nothing")).content
