"""`fetch` against a site on loopback: what it makes of pages, and what it refuses."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any
from urllib.parse import quote

import pytest

from agents.tools.contract import BadArguments, RequiredPermission, ToolRefusal
from agents.tools.limits import FETCH_CHARS, MAX_PAGE_BYTES
from agents.tools.web.fetch import Fetch
from tests.doubles.tool_context import ToolDoubles
from tests.doubles.web_site import Site
from tests.integration.tools.calling import required_permission
from tests.integration.tools.web.calling import fetch


async def test_fetch_makes_markdown(doubles: ToolDoubles, site: Site) -> None:
    told = await fetch(doubles, f"{site.url}/page#part")
    assert "# Heading" in told
    assert f"Some **bold** words and a [link]({site.url}/other?x=1)." in told
    assert "- one\n- two" in told
    assert "| a | b |" in told
    assert "x = 1\ny = 2" in told
    for unwanted in ("alert", "p {}", "remark", "base64"):
        assert unwanted not in told


async def test_fetch_makes_text_and_gives_the_source(doubles: ToolDoubles, site: Site) -> None:
    text = await fetch(doubles, f"{site.url}/page", "text")
    assert "Heading\nSome\nbold\nwords" in text
    assert "<" not in text
    assert "alert" not in text
    assert "<script>" in await fetch(doubles, f"{site.url}/page", "html")


async def test_fetch_gives_what_is_no_html_as_it_is(doubles: ToolDoubles, site: Site) -> None:
    assert await fetch(doubles, f"{site.url}/text") == "plain <b>words</b>\n"
    assert await fetch(doubles, f"{site.url}/json", "text") == '{"a": 1}'


@pytest.mark.parametrize("path", ["gzip", "deflate", "raw-deflate"])
async def test_it_unpacks(doubles: ToolDoubles, site: Site, path: str) -> None:
    assert "# Heading" in await fetch(doubles, f"{site.url}/{path}")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("broken-gzip", "cannot be decompressed"),
        ("cut-gzip", "ended too early"),
        ("brotli", "not requested"),
        ("status?code=404", "status 404 Not Found"),
        ("status?code=500", "status 500"),
        ("status?code=799", "status 799"),
        ("round", "redirected more than"),
        ("go?to=ftp://127.0.0.1/x", "Only http and https"),
        ("go?to=file:///etc/passwd", "Only http and https"),
        ("go?to=http://me:secret@127.0.0.1/", "user name or password"),
        ("go?to=http://[::1", "malformed"),
        ("bytes?type=image/png&hex=89504e470d0a", "image/png. Use download"),
        ("bytes?type=text/plain&hex=7f454c460000", "not text"),
        ("claims?n=5000", "did not respond as expected"),
    ],
)
async def test_it_says_why_there_is_no_page(
    doubles: ToolDoubles, site: Site, path: str, sentence: str
) -> None:
    with pytest.raises(ToolRefusal, match=sentence) as refusal:
        await fetch(doubles, f"{site.url}/{path}")
    assert "secret" not in str(refusal.value)
    assert "own words" not in str(refusal.value)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_it_follows_a_redirect(doubles: ToolDoubles, site: Site, code: int) -> None:
    assert "plain" in await fetch(doubles, f"{site.url}/go?code={code}&to=/text")


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
    doubles: ToolDoubles, site: Site, content_type: str, body: bytes, text: str
) -> None:
    url = f"{site.url}/bytes?type={quote(content_type)}&hex={body.hex()}"
    assert await fetch(doubles, url) == text


async def test_a_long_page_is_cut(doubles: ToolDoubles, site: Site) -> None:
    told = await fetch(doubles, f"{site.url}/long?n=10000")
    assert "more characters were left out" in told
    assert len(told) < FETCH_CHARS + 200
    told = await fetch(doubles, f"{site.url}/big?n=200", "html")
    assert f"{MAX_PAGE_BYTES:,} bytes of its source were read" in told


async def test_a_bomb_is_not_unpacked(doubles: ToolDoubles, site: Site) -> None:
    with pytest.raises(ToolRefusal, match="not text"):
        await fetch(doubles, f"{site.url}/bomb")


async def test_a_page_that_nests_for_ever_comes_as_text(doubles: ToolDoubles, site: Site) -> None:
    assert await fetch(doubles, f"{site.url}/nested?n=20000") == "deep"


@pytest.mark.parametrize("path", ["hang", "drip"])
async def test_it_does_not_wait_for_ever(doubles: ToolDoubles, site: Site, path: str) -> None:
    began = time.monotonic()
    with pytest.raises(ToolRefusal, match="longer than 1 seconds"):
        await fetch(doubles, f"{site.url}/{path}", timeout=1)
    assert time.monotonic() - began < 30


async def test_a_cancel_ends_it(doubles: ToolDoubles, site: Site) -> None:
    task = asyncio.create_task(fetch(doubles, f"{site.url}/hang"))
    while not site.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_fetch_asks_with_its_arguments(doubles: ToolDoubles, site: Site) -> None:
    question = await required_permission(
        Fetch(), doubles, url=f"{site.url}/page", format="text", timeout=500
    )
    assert question == RequiredPermission(
        tool_name="fetch",
        action="fetch",
        path=str(doubles.context.working_dir),
        description=f"Fetch content from URL: {site.url}/page",
        params={"url": f"{site.url}/page", "format": "text", "timeout": 120},
    )
    assert site.requests == []


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("example.org/x", "must begin with"),
        ("file:///etc/passwd", "must begin with"),
        ("gopher://example.org", "must begin with"),
        ("http://me:secret@example.org/", "user name or password"),
        ("https:///path", "no valid host"),
        ("http://example.org:99999/", "malformed"),
        ("http://[::1%25eth0]/", "no valid host"),
        ("http://exa mple.org/", "white space"),
        ("http://" + "a" * 9000, "too long"),
    ],
)
async def test_it_asks_nobody_about_what_is_no_url(
    doubles: ToolDoubles, url: str, sentence: str
) -> None:
    tool = Fetch()
    with pytest.raises((ToolRefusal, BadArguments), match=sentence) as refusal:
        await tool.required_permission(tool.parse({"url": url, "format": "text"}), doubles.context)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "given",
    [{"url": "http://x"}, {"format": "text"}, {"url": "http://x", "format": "pdf"}, {"url": 7}],
)
def test_fetch_names_the_field_that_does_not_fit(given: dict[str, Any]) -> None:
    with pytest.raises(BadArguments, match=r"^(url|format) "):
        Fetch().parse(given)


async def test_it_leaves_nothing_open(doubles: ToolDoubles, site: Site) -> None:
    await asyncio.gather(*(fetch(doubles, f"{site.url}/text") for _ in range(20)))
    # Sessions and connections are closed, or collecting them would warn, which fails.
    gc.collect()
