"""Which paths name a folder of a remote worker."""

from __future__ import annotations

import pytest

from workspaces.placement.remote_place import RemotePlace, remote_place


@pytest.mark.parametrize("path", ["box:src", "a:b", "1.gpu-host_2:project.x", f"{'a' * 63}:r"])
def test_a_name_and_a_root_are_a_remote_place(path: str) -> None:
    found = remote_place(path)
    assert found is not None
    assert found.path == path
    assert found == RemotePlace(*path.split(":"))


@pytest.mark.parametrize(
    "path",
    [
        "/srv/box:src",
        "/box:src",
        "box",
        "box:",
        ":src",
        "box:src/sub",
        "box:../src",
        "box:src:more",
        "Box:src",
        "box:Src",
        "-box:src",
        "box:.src",
        "box:src\n",
        "bóx:src",
        f"{'a' * 64}:r",
        "",
    ],
)
def test_everything_else_is_a_folder_of_the_server(path: str) -> None:
    assert remote_place(path) is None
