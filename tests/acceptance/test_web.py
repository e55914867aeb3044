"""Tools that use the web, through a running server: permissions, results and refusals."""

import json
import re
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.acceptance.calling import call, permission_request, results, run_call
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.shapes import Server
from tests.doubles.web_site import Site, web_site

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with web_site() as running:
        yield running


@pytest.fixture
async def seat(shared_server: Server, connect: Connect, project: MakeProject, site: Site) -> Seat:
    """In a workspace that asks nothing, and whose configuration lets the site be reached."""
    return await seat_at(connect(shared_server), project, site, yolo=True)


async def seat_at(client: Client, project: MakeProject, site: Site, **options: Any) -> Seat:
    tools = {"web": {"allowed_private_hosts": [f"127.0.0.1:{site.port}"]}}
    return await take_seat(client, project(uuid.uuid4().hex, tools=tools), **options)


async def test_fetch_needs_permission_and_returns_markdown(seat: Seat, site: Site) -> None:
    await seat.workspace.skip_permissions(False)
    session = await seat.workspace.session()
    url = f"{site.url}/page"
    await seat.workspace.prompt(session, call("fetch", url=url, format="markdown"))
    request = await permission_request(seat, session)
    assert (request["tool_name"], request["action"]) == ("fetch", "fetch")
    assert request["path"] == str(seat.workspace.path)
    assert request["params"] == {"url": url, "format": "markdown", "timeout": 0}
    assert site.requests == []  # not before leave was given
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)
    (result,) = results(await seat.workspace.messages(session))
    assert result["is_error"] is False
    assert "# Heading" in result["content"]
    assert "alert" not in result["content"]


async def test_private_addresses_are_refused(
    shared_server: Server, connect: Connect, project: MakeProject, site: Site
) -> None:
    """Also after a redirect, for names that lead there, and written in whatever way."""
    seat = await take_seat(connect(shared_server), project(uuid.uuid4().hex), yolo=True)
    session = await seat.workspace.session()
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0"):
        for prompt in (
            call("fetch", url=f"http://{host}:{site.port}/text", format="text"),
            call("download", url=f"http://{host}:{site.port}/text", file_path="f"),
        ):
            refused = await run_call(seat, session, prompt)
            assert refused["is_error"] is True
            assert "private network" in refused["content"]
    cloud = call("fetch", url="http://169.254.169.254/latest/meta-data/", format="text")
    assert "private network" in (await run_call(seat, session, cloud))["content"]
    assert site.requests == []
    assert not (seat.workspace.path / "f").exists()


async def test_a_redirect_into_a_private_network_is_refused(seat: Seat, site: Site) -> None:
    session = await seat.workspace.session()
    async with web_site() as inner:
        for target in (f"{inner.url}/text", f"http://localhost:{inner.port}/text"):
            refused = await run_call(
                seat, session, call("fetch", url=f"{site.url}/go?to={target}", format="text")
            )
            assert refused["is_error"] is True
            assert "private network" in refused["content"]
        assert inner.requests == []
    followed = await run_call(
        seat, session, call("fetch", url=f"{site.url}/go?to=/text", format="text")
    )
    assert followed["content"] == "plain <b>words</b>\n"


async def test_a_failed_fetch_is_a_tool_result(seat: Seat, site: Site) -> None:
    session = await seat.workspace.session()
    for given, sentence in [
        ({"url": f"{site.url}/page"}, "format is missing"),
        ({"url": f"{site.url}/page", "format": "pdf"}, "format must be one of"),
        ({"url": "ftp://example.org", "format": "text"}, "must begin with http"),
        ({"url": "http://me:sesame@example.org", "format": "text"}, "user name or password"),
        ({"url": f"{site.url}/status?code=404", "format": "text"}, "404 Not Found"),
        ({"url": f"{site.url}/bomb", "format": "text"}, "not text"),
        ({"url": f"{site.url}/hang", "format": "text", "timeout": 1}, "longer than 1 seconds"),
    ]:
        refused = await run_call(seat, session, call("fetch", **given))
        assert refused["is_error"] is True
        assert sentence in refused["content"], refused["content"]
        assert "sesame" not in refused["content"]


async def test_download_saves_a_file_and_reports_its_progress(seat: Seat, site: Site) -> None:
    await seat.workspace.skip_permissions(False)
    path = seat.workspace.path
    session = await seat.workspace.session()
    native = await NativeSse(seat.workspace.client.http, seat.workspace.id).open()
    try:
        url = f"{site.url}/slow"
        await seat.workspace.prompt(session, call("download", url=url, file_path="new/f.bin"))
        request = await permission_request(seat, session)
        assert (request["tool_name"], request["action"]) == ("download", "download")
        assert request["path"] == str(path / "new" / "f.bin")
        assert request["params"] == {"url": url, "file_path": "new/f.bin", "timeout": 0}
        await seat.workspace.grant(request)
        output = await native.wait_for(lambda item: item.type == "tool.output")
        assert "of 0.5 MB" in json.dumps(output.body)
        assert not (path / "new" / "f.bin").exists()  # whole or not at all
        site.resume.set()
        await seat.stream.run_complete(session)
    finally:
        await native.close()
    (result,) = results(await seat.workspace.messages(session))
    assert "500,000 bytes" in result["content"]
    assert (path / "new" / "f.bin").read_bytes() == b"s" * 500_000
    assert [entry.name for entry in (path / "new").iterdir()] == ["f.bin"]
    read = await seat.workspace.call("GET", f"/sessions/{session}/filetracker/files")
    assert read == [str(path / "new" / "f.bin")]


async def test_a_cancelled_download_leaves_nothing(seat: Seat, site: Site) -> None:
    session = await seat.workspace.session()
    native = await NativeSse(seat.workspace.client.http, seat.workspace.id).open()
    try:
        await seat.workspace.prompt(
            session, call("download", url=f"{site.url}/drip", file_path="new/f")
        )
        await native.wait_for(lambda item: item.type == "tool.output")
        await seat.workspace.call("POST", f"/agent/sessions/{session}/cancel")
        complete = await seat.stream.run_complete(session)
    finally:
        await native.close()
    assert complete["cancelled"] is True
    assert list((seat.workspace.path / "new").iterdir()) == []


async def test_sourcegraph_searches_the_instance_of_the_environment(
    shared_server: Server, connect: Connect, project: MakeProject, site: Site
) -> None:
    env = [f"SRC_ENDPOINT={site.url}", "SRC_ACCESS_TOKEN=sgp_sesame"]
    seat = await take_seat(connect(shared_server), project(uuid.uuid4().hex), env=env)
    session = await seat.workspace.session()
    found = await run_call(seat, session, call("sourcegraph", query="needle", context_window=1))
    assert "github.com/a/b: src/x.go" in found["content"]
    assert "20|line 20" in found["content"]
    assert site.requests[0].headers["Authorization"] == "token sgp_sesame"
    assert "sgp_sesame" not in json.dumps(await seat.workspace.messages(session))
    assert "sgp_sesame" not in shared_server.log_text()


def _hidden(document: str) -> str:
    """The same JSON, in which the model's own script sees no commands."""
    return document.replace("[", "\\u005b").replace("]", "\\u005d").replace(";", "\\u003b")


async def test_agentic_fetch_searches_and_reads_in_a_child_session(
    shared_server: Server, connect: Connect, project: MakeProject, site: Site
) -> None:
    env = [f"CRUSH_WEB_SEARCH_URL={site.url}/search"]
    seat = await seat_at(connect(shared_server), project, site, env=env)
    session = await seat.workspace.session()
    steps = [
        'web_search {"query": "words"}',
        f'web_fetch {{"url": "{site.url}/long?n=4000"}}',
        'ls {"path": "."}',  # which it has not
    ]
    prompt = f"[[calls={' ;; '.join(steps)}]] [[n=4 id=child]]"
    given = {"prompt": prompt, "url": f"{site.url}/long"}
    await seat.workspace.prompt(
        session, f"[[calls=agentic_fetch {_hidden(json.dumps(given))}]] [[n=3]]"
    )
    request = await permission_request(seat, session)
    assert (request["tool_name"], request["action"]) == ("agentic_fetch", "fetch")
    assert request["params"] == given
    assert request["path"] == str(seat.workspace.path)
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)
    messages = await seat.workspace.messages(session)
    (result,) = results(messages)
    assert result["is_error"] is False
    assert result["content"].startswith("child-")
    child = f"{messages[1]['id']}$${result['tool_call_id']}"
    own = {result["name"]: result for result in results(await seat.workspace.messages(child))}
    assert "https://example.org/first?a=1&b=2" in own["web_search"]["content"]
    assert "no tool 'ls'" in own["ls"]["content"]
    saved = re.search(r"saved in (\S+): use grep", own["web_fetch"]["content"])
    assert saved is not None
    assert "paragraph 3999 of many" in Path(saved[1]).read_text()
    assert Path(saved[1]).is_relative_to(seat.workspace.path / ".crush")
    # Nothing of it is left between the project's own files.
    assert {entry.name for entry in seat.workspace.path.iterdir()} <= {"crush.json", ".crush"}


async def test_only_the_sub_agent_searches_the_web(seat: Seat) -> None:
    session = await seat.workspace.session()
    refused = await run_call(seat, session, call("web_search", query="x"))
    assert refused["is_error"] is True
    assert "no tool 'web_search'" in refused["content"]
