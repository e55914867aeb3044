"""The token file by which commands on this machine sign in."""

import json
import os
from pathlib import Path

import pytest

from crushsite.server_client import LOCAL_TOKEN_FILE, SERVER_FILE, named_server, read_local_token


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    file = tmp_path / LOCAL_TOKEN_FILE
    file.write_text("crush_secret")
    file.chmod(0o600)
    return tmp_path


def named(folder: Path, url: str, pid: int) -> str:
    (folder / SERVER_FILE).write_text(json.dumps({"url": url, "pid": pid}))
    server = named_server(folder)
    assert server is not None
    assert "crush_secret" not in repr(server)
    return server.token


def test_the_token_is_read(folder: Path) -> None:
    assert read_local_token(folder) == "crush_secret"
    assert named(folder, "http://127.0.0.1:1", os.getpid()) == "crush_secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_read_or_write_is_none(folder: Path, mode: int) -> None:
    (folder / LOCAL_TOKEN_FILE).chmod(mode)
    assert read_local_token(folder) == ""


def test_without_a_file_there_is_none(tmp_path: Path) -> None:
    assert read_local_token(tmp_path) == ""


def test_a_socket_file_needs_none(folder: Path) -> None:
    assert named(folder, "unix:///tmp/socket", os.getpid()) == ""


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**70])
def test_it_is_not_sent_to_the_address_of_an_ended_server(folder: Path, pid: int) -> None:
    assert named(folder, "http://127.0.0.1:1", pid) == ""
