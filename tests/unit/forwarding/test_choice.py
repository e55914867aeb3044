"""Which worker performs the requests of a workspace."""

from __future__ import annotations

from crushsite.forwarding.choice import chosen_worker
from workspaces.placement.roots import Root, WorkerOffer

ROOTS = [Root("code", "/srv/code"), Root("data", "/mnt/data")]


def worker(name: str, *roots: str, labels: tuple[str, ...] = ()) -> WorkerOffer:
    return WorkerOffer("alpha", roots, (), labels, name)


def choose(
    path: str, *workers: WorkerOffer, needed: tuple[str, ...] = (), home: str = "", **homes: int
) -> str:
    found = chosen_worker(path, needed, roots=ROOTS, workers=workers, home=home, homes=homes)
    return "" if found is None else found.id


def test_it_serves_the_root_and_has_the_labels() -> None:
    one, two = worker("one", "code"), worker("two", "data", labels=("gpu",))
    assert choose("/srv/code/shop", one, two) == "one"
    assert choose("/mnt/data/notes", one, two) == "two"
    assert choose("/mnt/data/notes", one, two, needed=("gpu",)) == "two"
    assert choose("/srv/code/shop", one, two, needed=("gpu",)) == ""
    assert choose("/home/ann", one, two) == ""
    assert choose("/srv/code/shop") == ""


def test_a_folder_keeps_its_worker_while_others_come_and_go() -> None:
    workers = [worker(f"w{number}", "code") for number in range(5)]
    folders = [f"/srv/code/{number}" for number in range(200)]
    before = {folder: choose(folder, *workers) for folder in folders}
    assert set(before.values()) == {one.id for one in workers}
    assert before == {folder: choose(folder, *reversed(workers)) for folder in folders}

    left = [one for one in workers if one.id != "w3"]
    after = {folder: choose(folder, *left) for folder in folders}
    assert all(after[folder] == one for folder, one in before.items() if one != "w3")


def test_the_home_comes_first_if_it_serves_the_folder() -> None:
    workers = [worker(f"w{number}", "code") for number in range(5)]
    for one in workers:
        assert choose("/srv/code/shop", *workers, home=one.id, w0=9, w1=9) == one.id
    assert choose("/srv/code/shop", worker("w0", "code"), worker("w1", "data"), home="w1") == "w0"


def test_without_a_home_the_worker_with_the_fewest_homes_is_chosen() -> None:
    workers = [worker(f"w{number}", "code") for number in range(3)]
    assert choose("/srv/code/shop", *workers, w0=2, w1=1, w2=2) == "w1"
    assert choose("/srv/code/shop", *workers, w0=2, w2=2) == "w1"
    assert choose("/srv/code/shop", *workers, home="gone", w0=2, w2=2) == "w1"
