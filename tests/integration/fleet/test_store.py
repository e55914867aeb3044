"""A project's sessions on disk."""

import threading

import orjson
import pytest

from agents.fleet.mail import Mail, Sender
from agents.fleet.store import BadName, ChildEntry, ChildStatus, ProjectStore, RootEntry

MOMENT = 1_795_000_980_000_000_000


def child(child_id, status=ChildStatus.PENDING):
    return ChildEntry(child_id, "researcher", status, "Title", "Reads", MOMENT)


@pytest.fixture
def store(tmp_path):
    return ProjectStore(tmp_path, "-home-dev-project-0975f39b")


def document(store, *parts):
    return orjson.loads(store.folder.joinpath(*parts).read_bytes())


def test_it_lies_where_the_other_side_looks_for_it(store, tmp_path):
    store.put_root(RootEntry("p2", "Two", MOMENT))
    store.put_root(RootEntry("p1", "One", MOMENT))
    store.put_child("p1", child("c1"))
    store.save_session("p1", {"any": 1})
    store.save_session("p1", {"any": 2}, child_id="c1")
    store.mailbox("p1", "c1").deliver(Mail(Sender("p1"), "task", 1))
    assert store.folder == tmp_path / "projects" / "-home-dev-project-0975f39b"
    assert document(store, "index.json") == {
        "version": 0,
        "roots": [
            {"session_id": "p1", "title": "One", "updated_at": "2026-11-18T11:23:00Z"},
            {"session_id": "p2", "title": "Two", "updated_at": "2026-11-18T11:23:00Z"},
        ],
        "child_lookup": {"c1": "p1"},
    }
    assert document(store, "sessions", "p1", "children.json") == {
        "version": 0,
        "children": [
            {
                "child_id": "c1",
                "subagent_type": "researcher",
                "status": "pending",
                "title": "Title",
                "responsibility": "Reads",
                "updated_at": "2026-11-18T11:23:00Z",
            }
        ],
    }
    assert document(store, "sessions", "p1", "session.json") == {"any": 1}
    assert document(store, "sessions", "p1", "children", "c1", "session.json") == {"any": 2}
    assert store.mailbox("p1", "c1").waiting() == 1
    assert store.session("p1", "c1") == {"any": 2}


def test_children_are_sorted_replaced_and_removed(store):
    for child_id in ("b", "a", "b"):
        store.put_child("p", child(child_id))
    assert [each.child_id for each in store.children("p")] == ["a", "b"]
    assert store.set_status("p", "b", ChildStatus.RUNNING)
    assert not store.set_status("p", "x", ChildStatus.RUNNING)
    assert [each.status for each in store.children("p")] == ["pending", "running"]
    assert store.parent_of("b") == "p"
    store.remove_child("p", "b")
    store.remove_child("p", "b")
    assert store.parent_of("b") is None
    assert [each.child_id for each in store.children("p")] == ["a"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"roots":[{"session_id":1}]}'])
def test_an_index_that_cannot_be_read_is_made_again_from_the_sessions(store, content):
    store.save_session("p1", {"title": "One"})
    store.put_child("p1", child("c1"))
    (store.folder / "index.json").write_bytes(content)
    index = store.index()
    assert [(root.session_id, root.title) for root in index.roots] == [("p1", "One")]
    assert index.child_lookup == {"c1": "p1"}


def test_a_session_that_cannot_be_read_is_absent(store):
    store.save_session("p1", {"title": "One"})
    (store.folder / "sessions" / "p1" / "session.json").write_bytes(b"{")
    assert store.session("p1") is None
    assert store.session("never") is None


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", ".git"])
def test_no_id_leaves_the_folder(store, tmp_path, name):
    for refuse in (
        lambda: store.save_session(name, {}),
        lambda: store.save_session("p", {}, child_id=name),
        lambda: store.put_child("p", child(name)),
        lambda: store.mailbox(name),
        lambda: ProjectStore(tmp_path, name),
    ):
        with pytest.raises(BadName):
            refuse()


def test_writers_at_once_lose_no_child(store):
    def add(number):
        own = ProjectStore(store.folder.parents[1], store.folder.name)
        for each in range(5):
            own.put_child("p", child(f"c{number}-{each}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.children("p")) == 20
    assert len(store.index().child_lookup) == 20
