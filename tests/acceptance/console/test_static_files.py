"""The files that pages load: hashed and compressed where the data folder allows it."""

import re

import aiohttp

from tests.acceptance.conftest import MakeServer
from tests.acceptance.harness.shapes import Server, Shape

SHEET = re.compile(r'href="(/static/people/people[^"]*\.css)"')


async def sheet_of(server: Server, session: aiohttp.ClientSession) -> str:
    """The address of the style sheet of a page."""
    async with session.get(f"{server.url}/sign-in/") as answer:
        assert answer.status == 200
        found = SHEET.search(await answer.text())
    assert found is not None
    return found[1]


async def test_files_are_hashed_compressed_and_kept_by_browsers(embedded_server: Server) -> None:
    async with aiohttp.ClientSession() as session:
        address = await sheet_of(embedded_server, session)
        assert re.fullmatch(r"/static/people/people\.[0-9a-f]{12}\.css", address)
        for encoding in ("br", "gzip"):
            headers = {"Accept-Encoding": encoding}
            async with session.get(
                f"{embedded_server.url}{address}", headers=headers, auto_decompress=False
            ) as answer:
                assert answer.headers["Content-Encoding"] == encoding
                assert "immutable" in answer.headers["Cache-Control"]


async def test_browsers_guess_no_types_of_files(embedded_server: Server) -> None:
    async with aiohttp.ClientSession() as session:
        address = await sheet_of(embedded_server, session)
        # Django answers HEAD, GET is answered without it.
        for method in ("HEAD", "GET"):
            async with session.request(method, f"{embedded_server.url}{address}") as answer:
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_pages_and_resources_work_where_files_cannot_be_collected(
    make_a_server: MakeServer,
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    server.data_dir.mkdir(parents=True, mode=0o700, exist_ok=True)
    (server.data_dir / "static").write_text("not a folder")
    server.start()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{server.url}/api/me") as answer:
            assert answer.status == 200
        assert "could not be collected" not in server.log_text()  # resources do not wait for files
        address = await sheet_of(server, session)
        async with session.get(f"{server.url}{address}") as answer:
            assert answer.status == 200
    assert "could not be collected" in server.log_text()
