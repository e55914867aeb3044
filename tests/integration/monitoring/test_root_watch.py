"""A process verifies the roots that it serves, while disks come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from crushsite.monitoring.root_watch import RootWatch
from tests.integration.runs.ground import write
from workspaces.actions.processes import add_root, forget_root
from workspaces.log.reader import read, stop_reading
from workspaces.models import WorkRoot, Workspace
from workspaces.placement.markers import MARKER, write_marker
from workspaces.placement.roots import Root


@pytest_asyncio.fixture(autouse=True)
async def _reading(database: str) -> AsyncIterator[None]:
    yield
    await asyncio.to_thread(stop_reading)


async def store(name: str, folder: Path) -> str:
    root: WorkRoot = await read(write, partial(add_root, name=name, path=str(folder), marker=""))
    return root.marker


async def test_a_root_is_served_while_its_folder_has_its_marker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    root = Root("code", str(tmp_path))
    watch = RootWatch([root], ["gpu"], is_needed=True)
    await watch.check()
    assert (watch.served_names, watch.missing_names) == ((), ("code",))
    assert "the root code is not served: the database has no such root" in caplog.text

    marker = await store("code", tmp_path)
    await watch.check()
    assert (watch.served_names, watch.missing_names) == ((), ("code",))
    assert f"has no {MARKER}: a disk is not mounted" in caplog.text

    write_marker(str(tmp_path), marker)
    await watch.check()
    assert (watch.served_names, watch.missing_names) == (("code",), ())
    assert watch.scope is not None
    assert watch.scope.serves(f"{tmp_path}/shop")

    (tmp_path / MARKER).unlink()
    caplog.clear()
    await watch.check()
    await watch.check()
    assert not watch.scope.serves(f"{tmp_path}/shop")
    assert caplog.text.count("is not served") == 1

    await read(write, partial(forget_root, name="code"))
    await watch.check()
    assert watch.missing_names == ("code",)


async def test_without_roots_what_lies_below_a_root_is_not_served(tmp_path: Path) -> None:
    await store("code", tmp_path)
    watch = RootWatch([], [], is_needed=True)
    await watch.check()
    assert watch.scope is not None
    assert not watch.scope.serves(f"{tmp_path}/shop")
    assert watch.scope.serves("/elsewhere")


async def test_it_reads_which_needed_labels_it_has() -> None:
    def label(path: str, labels: str) -> None:
        Workspace.objects.create(path=path, data_dir=path, labels=labels)

    for path, labels in (("/a", "gpu"), ("/b", "arm,gpu"), ("/c", ""), ("/d", "gpu")):
        await read(label, path, labels)
    watch = RootWatch([], ["gpu", "linux"], is_needed=True)
    await watch.check()
    assert watch.scope is not None
    assert watch.scope.satisfied == ("gpu",)


async def test_a_process_that_is_alone_without_roots_verifies_nothing() -> None:
    watch = RootWatch([], [], is_needed=False)
    await watch.start()
    assert watch.scope is None
    await watch.stop()
