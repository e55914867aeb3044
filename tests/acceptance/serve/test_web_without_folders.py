"""A web process that cannot read the folders: its workers do, each those below its roots."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import MakeServer

# Root may read everything, unless it gives that up. Other users are no such exception.
CAPABILITIES = "-dac_override,-dac_read_search"
NOBODY = 65_534


@pytest.fixture
def server(make_a_server: MakeServer, tmp_path: Path, model: ScriptedModel) -> Server:
    """Two workers with roots of their own."""
    roots = {name: tmp_path / name for name in ("code", "data")}
    for name, root in roots.items():
        make_project(root / "shop", model.base_url)
        (root / "shop" / f"{name}.txt").write_text(name)

    def reroute(name: str, _: Mapping[str, str]) -> Mapping[str, str]:
        named = {"worker 1": "code", "worker 2": "data"}
        root = named.get(name)
        return {} if root is None else {"CRUSH_ROOTS": f"{root}={roots[root]}"}

    server = make_a_server(Shape.SCALED, workers=2, reroute=reroute)
    done = command(server.env, "root", "init", *(f"{name}={root}" for name, root in roots.items()))
    assert done.code == 0, done.err
    if os.geteuid() == 0:
        for root in roots.values():
            root.chmod(0o700)
            os.chown(root, NOBODY, NOBODY)
    server.start()
    return server


@pytest.fixture
def web(server: Server, tmp_path: Path) -> Iterator[str]:
    """The address of a further web process, which cannot read them if the tests run as root."""
    url = f"http://127.0.0.1:{free_port()}"
    sets = ["--bounding-set", CAPABILITIES, "--inh-caps", CAPABILITIES]
    prefix = [shutil.which("setpriv") or "", *sets, "--"] if os.geteuid() == 0 else []
    host = ["--host", url.replace("http", "tcp", 1)]
    process = Process(
        "web 2",
        [*prefix, sys.executable, "manage.py", "web", *host],
        env=server.env,
        cwd=ROOT,
        log=tmp_path / "web-2.log",
    )
    process.start()
    process.wait_for_line("Serving", 90)
    yield url
    process.stop()


async def test_it_serves_workspaces_of_several_workers(
    server: Server, web: str, tmp_path: Path
) -> None:
    async with Client(web) as client:
        for name in ("code", "data"):
            workspace = await client.workspace(tmp_path / name / "shop")
            assert workspace.answer["config"]["models"]["large"]["model"] == "fake-large"
            stream = await workspace.attach()
            paths = f"/api/workspaces/{workspace.id}/paths"
            found = await client.http.call("GET", paths, params={"q": name})
            assert [each["path"] for each in found["items"]] == [f"{name}.txt"]
            session = await workspace.session()
            prompt = {"text": "[[n=3]]", "run_id": name, "options": {"model": "fake/fake-small"}}
            prompts = f"/api/workspaces/{workspace.id}/sessions/{session}/prompts"
            await client.http.call("POST", prompts, prompt, expect=202)
            await stream.run_complete(session, run_id=name)
            (_, reply) = await workspace.messages(session)
            assert reply["model"] == "fake-small"
            shown = await workspace.shell(session, f"cat {name}.txt; echo; pwd")
            assert shown["output"].split() == [name, str(tmp_path / name / "shop")]
            assert shown["exit_code"] == 0


async def test_its_lists_show_what_the_workers_read(
    server: Server, web: str, tmp_path: Path
) -> None:
    code, data = tmp_path / "code" / "shop", tmp_path / "data" / "shop"
    await asyncio.to_thread(commit, code, branch="trunk")
    async with Client(web) as client:
        ids = [(await client.workspace(folder)).id for folder in (code, data)]

        async def configs() -> dict[str, Any]:
            listed = await client.http.call("GET", "/v1/workspaces")
            return {each["id"]: each["config"] for each in listed}

        async def git() -> dict[str, Any]:
            board = await client.http.call("GET", "/api/board")
            return {each["id"]: each["git"] for each in board["items"]}

        async with asyncio.timeout(60):
            while not all((found := await configs()).values()):
                await asyncio.sleep(0.1)
        assert [found[each]["models"]["large"]["model"] for each in ids] == ["fake-large"] * 2
        async with asyncio.timeout(60):
            while not (states := await git())[ids[0]]:
                await asyncio.sleep(0.1)
        assert states[ids[0]] == {"branch": "trunk", "added": 0, "removed": 0}
        assert states[ids[1]] is None  # no repository
        folders = await client.http.call("GET", "/api/folders")
        assert {each["name"]: each["path"] for each in folders["items"]} == {
            "code": str(tmp_path / "code"),
            "data": str(tmp_path / "data"),
        }

        await asyncio.to_thread(server.processes("worker")[0].stop)
        async with asyncio.timeout(60):
            while not (found := await configs())[ids[1]]:
                await asyncio.sleep(0.1)
        assert found[ids[0]] is None
        async with asyncio.timeout(60):
            while (await git())[ids[0]]:
                await asyncio.sleep(0.1)


def commit(folder: Path, *, branch: str) -> None:
    git = ["git", "-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for arguments in (["init", "-qb", branch], ["add", "."], ["commit", "-qm", "First"]):
        subprocess.run([*git, "-C", str(folder), *arguments], check=True)


async def test_a_request_is_refused_while_no_worker_has_the_folder(
    server: Server, web: str, tmp_path: Path
) -> None:
    async with Client(web) as client:
        workspace = await client.workspace(tmp_path / "code" / "shop")
        await asyncio.to_thread(server.processes("worker")[0].stop)
        with pytest.raises(UnexpectedStatus, match="No worker that has the folder") as caught:
            await workspace.config()
        assert caught.value.status == 503
        session = await workspace.session()
        await workspace.prompt(session, "[[n=3]]", "later")
        stream = await workspace.attach(init=False)
        await asyncio.to_thread(server.start)
        await stream.run_complete(session, run_id="later")
        assert (await workspace.config())["models"]["large"]["model"] == "fake-large"
