"""The marker of a root: written once, and read from folders that agents may write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workspaces.log.ids import new_id
from workspaces.placement.markers import (
    MARKER,
    MarkerProblem,
    read_marker,
    verify_root,
    write_marker,
)
from workspaces.placement.roots import Root


def test_a_marked_folder_is_the_root(tmp_path: Path) -> None:
    marker = new_id()
    assert read_marker(str(tmp_path)) == ""

    write_marker(str(tmp_path), marker)

    assert read_marker(str(tmp_path)) == marker
    verify_root(Root("code", str(tmp_path)), path=str(tmp_path), marker=marker)


def test_a_marker_is_never_replaced(tmp_path: Path) -> None:
    write_marker(str(tmp_path), first := new_id())
    with pytest.raises(MarkerProblem, match="cannot be written"):
        write_marker(str(tmp_path), new_id())
    assert read_marker(str(tmp_path)) == first


def test_a_folder_without_its_marker_is_not_the_root(tmp_path: Path) -> None:
    with pytest.raises(MarkerProblem, match=r"has no \.crush-root: a disk is not mounted"):
        verify_root(Root("code", str(tmp_path)), path=str(tmp_path), marker=new_id())


def test_a_folder_with_the_marker_of_another_root_is_not_the_root(tmp_path: Path) -> None:
    write_marker(str(tmp_path), new_id())
    with pytest.raises(MarkerProblem, match="is the marker of another root"):
        verify_root(Root("code", str(tmp_path)), path=str(tmp_path), marker=new_id())


def test_a_missing_folder_is_not_the_root_and_is_not_created(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(MarkerProblem, match="does not exist here"):
        verify_root(Root("code", str(gone)), path=str(gone), marker=new_id())
    assert not gone.exists()


def test_a_link_to_another_folder_is_not_the_root(tmp_path: Path) -> None:
    marker, other, link = new_id(), tmp_path / "other", tmp_path / "link"
    other.mkdir()
    write_marker(str(other), marker)
    link.symlink_to(other)
    verify_root(Root("code", str(link)), path=str(other), marker=marker)
    with pytest.raises(MarkerProblem, match="leads to"):
        verify_root(Root("code", str(link)), path=str(link), marker=marker)


def test_a_link_a_pipe_a_folder_and_other_content_are_no_markers(tmp_path: Path) -> None:
    secret, marker = tmp_path / "secret", tmp_path / MARKER
    secret.write_text(new_id())
    marker.symlink_to(secret)
    with pytest.raises(MarkerProblem, match="cannot be read"):
        read_marker(str(tmp_path))
    marker.unlink()
    os.mkfifo(marker)
    with pytest.raises(MarkerProblem, match="is not a file"):
        read_marker(str(tmp_path))
    marker.unlink()
    marker.mkdir()
    with pytest.raises(MarkerProblem, match="is not a file"):
        read_marker(str(tmp_path))
    marker.rmdir()
    marker.write_bytes(b"\xff" * 100_000)
    with pytest.raises(MarkerProblem, match="is not a marker"):
        read_marker(str(tmp_path))
