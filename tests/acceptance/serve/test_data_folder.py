"""The server and its data folder and settings, when it starts."""

import stat
import time
from pathlib import Path

import pytest

from tests.acceptance.serve.starting import EXIT_SECONDS, Serve, refused_to_start
from tests.acceptance.small_disk import SmallDisk


def test_the_first_start_creates_its_folder_and_the_second_finds_it(
    serve: Serve, tmp_path: Path
) -> None:
    for number in range(2):
        began = time.monotonic()
        process = serve("--host", "tcp://127.0.0.1:0", data="not/there/yet")
        process.wait_for_line("Serving", 60)
        print(f"start {number + 1}: {time.monotonic() - began:.2f} s to listen")
        assert process.stop() == 0
        assert process.log_text().splitlines()[-1] == "Stopped"
    folder = tmp_path / "not" / "there" / "yet"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "server.sqlite3").exists()


def test_a_second_server_on_the_same_data_is_refused(serve: Serve, tmp_path: Path) -> None:
    first = serve("--host", "tcp://127.0.0.1:0")
    first.wait_for_line("Serving", 60)
    log = refused_to_start(serve("--host", "tcp://127.0.0.1:0"))
    assert "already runs" in log
    assert str(tmp_path / "data") in log
    assert first.stop() == 0


def test_an_unusable_data_folder_is_reported(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for data in ("file", "file/below"):
        assert "CRUSH_DATA_DIR" in refused_to_start(serve(data=data))
    assert "CRUSH_DATA_DIR" in refused_to_start(serve(data="/proc/nope"))


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o750, 0o701])
def test_a_data_folder_that_others_can_enter_is_refused(
    serve: Serve, tmp_path: Path, mode: int
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    refusal = refused_to_start(serve(data="shared"))
    assert f"{mode:04o}" in refusal
    assert f"chmod 700 {folder}" in refusal
    assert list(folder.iterdir()) == []


def test_a_link_in_place_of_the_lock_is_refused_and_not_followed(
    serve: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "server.lock").symlink_to(tmp_path / "target")
    refusal = refused_to_start(serve())
    assert "server.lock is a symbolic link" in refusal
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CRUSH_SERVER_DETACH_GRACE", "soon"),
        ("DATABASE_URL", "mysql://localhost/x"),
        ("CRUSH_LOG_LEVEL", "LOUD"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(
    serve: Serve, name: str, value: str
) -> None:
    process = serve("--host", "tcp://127.0.0.1:0", **{name: value})
    assert process.wait(EXIT_SECONDS) != 0
    log = process.log_text()
    assert name in log.splitlines()[-1]
    assert "Traceback" not in log


def test_a_start_on_a_full_disk_prints_the_reason(serve: Serve, small_disk: SmallDisk) -> None:
    small_disk.fill()
    assert "No space" in refused_to_start(serve(CRUSH_DATA_DIR=str(small_disk.folder)))


def test_a_start_on_a_disk_that_was_filled_later_prints_the_reason(
    serve: Serve, small_disk: SmallDisk
) -> None:
    first = serve("--host", "tcp://127.0.0.1:0", CRUSH_DATA_DIR=str(small_disk.folder))
    first.wait_for_line("Serving", 60)
    assert first.stop() == 0
    small_disk.fill()
    assert "No space" in refused_to_start(serve(CRUSH_DATA_DIR=str(small_disk.folder)))


@pytest.mark.parametrize("size", [27_000, 200])
def test_a_start_on_a_broken_database_prints_the_reason(
    serve: Serve, tmp_path: Path, size: int
) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "server.sqlite3").write_bytes(b"This is no database. "[:size] * (size // 20))
    log = refused_to_start(serve())
    assert "is damaged" in log
    assert "backup" in log
    assert str(folder / "server.sqlite3") in log


def test_a_start_on_a_database_with_broken_pages_prints_the_reason(
    serve: Serve, tmp_path: Path
) -> None:
    first = serve("--host", "tcp://127.0.0.1:0")
    first.wait_for_line("Serving", 60)
    assert first.stop() == 0
    database = tmp_path / "data" / "server.sqlite3"
    content = bytearray(database.read_bytes())
    content[200:] = b"\xff" * (len(content) - 200)
    database.write_bytes(content)
    assert "is damaged" in refused_to_start(serve())
