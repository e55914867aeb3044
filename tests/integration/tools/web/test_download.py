"""`download` saves a file whole or not at all."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.web.download import Download
from tests.doubles.tool_context import ToolDoubles
from tests.doubles.web_site import Site
from tests.integration.tools.calling import call, required_permission


async def test_download_saves_the_bytes_and_counts_as_read(
    doubles: ToolDoubles, site: Site, tmp_path: Path
) -> None:
    outcome = await call(
        Download(), doubles, url=f"{site.url}/sized?n=3000000", file_path="new/a.zip"
    )
    path = tmp_path.resolve() / "new" / "a.zip"
    assert path.read_bytes() == b"y" * 3_000_000
    assert "3,000,000 bytes, application/zip" in outcome.content
    assert doubles.files.marks[str(path)].size == 3_000_000
    assert doubles.progress[-1] == "Downloaded 3.0 of 3.0 MB\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.zip"]
    # It was written in this session, so it may be replaced, and keeps its mode.
    path.chmod(0o640)
    doubles.files.marks[str(path)] = dataclasses.replace(doubles.files.marks[str(path)])
    await call(Download(), doubles, url=f"{site.url}/text", file_path="new/a.zip")
    assert path.read_text() == "plain <b>words</b>\n"
    assert path.stat().st_mode & 0o777 == 0o640


async def test_download_tells_how_far_it_is(doubles: ToolDoubles, site: Site) -> None:
    outcome = asyncio.create_task(
        call(Download(), doubles, url=f"{site.url}/drip", file_path="f", timeout=5)
    )
    with pytest.raises(ToolRefusal, match="longer than 5 seconds"):
        await outcome
    assert doubles.progress
    assert doubles.progress[0].startswith("Downloaded 0.0 MB")


async def test_download_asks_for_the_file(doubles: ToolDoubles, site: Site, tmp_path: Path) -> None:
    given = {"url": f"{site.url}/text", "file_path": "a"}
    question = await required_permission(Download(), doubles, **given)
    assert question is not None
    assert (question.action, question.path) == ("download", str(tmp_path.resolve() / "a"))
    assert question.params == {**given, "timeout": 0}
    assert site.requests == []


async def test_download_replaces_no_file_that_was_not_read(
    doubles: ToolDoubles, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(ToolRefusal, match="not read in this session"):
        await required_permission(Download(), doubles, url=f"{site.url}/text", file_path="a")
    with pytest.raises(ToolRefusal, match="not read in this session"):
        await call(Download(), doubles, url=f"{site.url}/text", file_path="a")
    assert (tmp_path / "a").read_text() == "mine"
    assert site.requests == []


@pytest.mark.parametrize("path", ["big?n=2000", "sized?n=100000001", "claims?n=200000000"])
async def test_download_takes_no_more_than_its_limit(
    doubles: ToolDoubles, site: Site, tmp_path: Path, path: str
) -> None:
    with pytest.raises(ToolRefusal, match="larger than 100,000,000 bytes"):
        await call(Download(), doubles, url=f"{site.url}/{path}", file_path="f")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["claims?n=5000", "status?code=403", "cut-gzip"])
async def test_half_a_download_leaves_nothing(
    doubles: ToolDoubles, site: Site, tmp_path: Path, path: str
) -> None:
    with pytest.raises(ToolRefusal):
        await call(Download(), doubles, url=f"{site.url}/{path}", file_path="f")
    assert list(tmp_path.iterdir()) == []


async def test_a_cancelled_download_leaves_nothing(
    doubles: ToolDoubles, site: Site, tmp_path: Path
) -> None:
    task = asyncio.create_task(call(Download(), doubles, url=f"{site.url}/drip", file_path="f"))
    while not list(tmp_path.iterdir()):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(tmp_path.iterdir()) == []
