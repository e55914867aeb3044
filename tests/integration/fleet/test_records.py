"""Records of agents in a folder that anybody may have filled."""

import os
import stat
import threading
from dataclasses import replace

import pytest

from agents.fleet import records
from agents.fleet.records import NANOS, BadRecord, Record, now_nanos

CAPTURED = b"""{
  "agent_id": "z1",
  "role": "r",
  "labels": [],
  "endpoint": "ws://127.0.0.1:37817",
  "pid": 29803,
  "version": "2026.6.21",
  "started_at": "2026-11-18T09:23:00.613725835Z",
  "lease_expires_at": "2026-11-18T09:24:00.613725835Z"
}"""


def make(agent_id="a1", *, seconds=60.0):
    return records.new_record(
        agent_id, role="r", endpoint="ws://127.0.0.1:1", lease_seconds=seconds
    )


def test_it_is_written_as_the_other_side_writes_it():
    assert records.encode(records.decode(CAPTURED)) == CAPTURED


def test_a_published_record_is_found_and_withdrawn(tmp_path):
    folder = tmp_path / "not" / "yet"
    record = make()
    records.publish(folder, record)
    assert records.find_record(folder, "a1") == record
    assert stat.S_IMODE((folder / "a1.json").stat().st_mode) == 0o644
    records.withdraw(folder, "a1")
    records.withdraw(folder, "a1")
    assert records.live_records(folder) == []
    assert list(folder.iterdir()) == []


def test_a_lease_ends_at_its_very_moment(tmp_path):
    record = make()
    records.publish(tmp_path, record)
    assert records.live_records(tmp_path, record.lease_expires_at - 1) == [record]
    assert records.live_records(tmp_path, record.lease_expires_at) == []


def test_renewing_gives_a_new_lease_also_after_a_collection(tmp_path):
    old = make(seconds=-1)
    records.publish(tmp_path, old)
    assert records.collect_expired(tmp_path) == 1
    renewed = records.renew(tmp_path, old, 5)
    assert records.live_records(tmp_path) == [renewed]
    assert replace(renewed, lease_expires_at=old.lease_expires_at) == old


def test_the_list_is_sorted_and_skips_what_is_hidden_or_no_json(tmp_path):
    for name in ("b", "a", "c"):
        records.publish(tmp_path, make(name))
    (tmp_path / ".h.json").write_bytes((tmp_path / "a.json").read_bytes())
    (tmp_path / "a.txt").write_text("x")
    assert [record.agent_id for record in records.live_records(tmp_path)] == ["a", "b", "c"]


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert records.live_records(tmp_path / "none") == []
    assert records.collect_expired(tmp_path / "none") == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        CAPTURED.replace(b'"pid": 29803', b'"pid": "x"'),
        CAPTURED.replace(b"T09:24", b"T29:24"),
        CAPTURED.replace(b'"role": "r",', b""),
        b" " * (records.MOST_BYTES + 1) + CAPTURED,
        CAPTURED.replace(b'"z1"', b'"other"'),
    ],
    ids=range(9),
)
def test_what_cannot_be_read_is_absent_and_collected(tmp_path, content):
    (tmp_path / "z1.json").write_bytes(content)
    assert records.live_records(tmp_path, 0) == []
    assert records.find_record(tmp_path, "z1", 0) is None
    assert records.collect_expired(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_labels_and_version_may_be_absent():
    shorter = CAPTURED.replace(b'  "labels": [],\n', b"").replace(
        b'  "version": "2026.6.21",\n', b""
    )
    record = records.decode(shorter)
    assert (record.labels, record.version) == ((), None)


def test_links_pipes_and_folders_are_not_followed(tmp_path):
    outside = tmp_path / "outside.json"
    folder = tmp_path / "fabric"
    records.publish(folder, make("real"))
    outside.write_bytes(records.encode(make("link")))
    (folder / "link.json").symlink_to(outside)
    os.mkfifo(folder / "pipe.json")
    (folder / "dir.json").mkdir()
    assert [record.agent_id for record in records.live_records(folder)] == ["real"]
    assert records.collect_expired(folder) == 2
    assert outside.exists()
    assert sorted(entry.name for entry in folder.iterdir()) == ["dir.json", "real.json"]


@pytest.mark.parametrize("name", ["../a", "a/b", "", ".a", "a\0", "x" * 300, "a\nb", "\ud800"])
def test_an_id_that_is_no_file_name_is_refused(tmp_path, name):
    with pytest.raises(BadRecord):
        records.publish(tmp_path, replace(make(), agent_id=name))
    with pytest.raises(BadRecord):
        records.withdraw(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_publishing_replaces_a_link_instead_of_writing_through_it(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "a1.json").symlink_to(victim)
    records.publish(tmp_path, make())
    assert victim.read_text() == "mine"
    assert not (tmp_path / "a1.json").is_symlink()


def test_a_dead_writers_temporary_is_collected_and_a_fresh_one_is_left(tmp_path):
    old = tmp_path / ".a.json.tmp.7a0c0f2e-0000-4000-8000-000000000001"
    fresh = tmp_path / ".a.json.tmp.7a0c0f2e-0000-4000-8000-000000000002"
    for file in (old, fresh):
        file.write_text("{")
    os.utime(old, (1, 1))
    records.collect_expired(tmp_path)
    assert list(tmp_path.iterdir()) == [fresh]


def test_a_reader_never_sees_half_a_record(tmp_path):
    """One writes again and again while another reads and a third collects."""
    record = make()
    records.publish(tmp_path, record)
    done = threading.Event()
    missed = []

    def collect():
        while not done.is_set():
            records.collect_expired(tmp_path, now_nanos())

    def look():
        while not done.is_set():
            if records.find_record(tmp_path, "a1") is None:
                missed.append(1)

    threads = [threading.Thread(target=work) for work in (collect, look)]
    for thread in threads:
        thread.start()
    for _ in range(150):
        record = records.renew(tmp_path, record)
    done.set()
    for thread in threads:
        thread.join()
    assert missed == []
    assert records.live_records(tmp_path) == [record]


def test_a_record_has_no_lease_without_end():
    record = Record("a", "r", "ws://x", 1, 0, 5 * NANOS)
    assert record.is_live(5 * NANOS - 1)
    assert not record.is_live()
