"""Roots and labels: what is written in settings, and what a worker serves because of them."""

from __future__ import annotations

import pytest

from workspaces.placement.roots import (
    BadPlacement,
    Root,
    WorkerOffer,
    WorkerScope,
    parse_labels,
    parse_roots,
    why_unserved,
)

CODE, DATA = Root("code", "/srv/code"), Root("data", "/mnt/data")


def test_roots_are_read_in_order() -> None:
    assert parse_roots(["code=/srv/code", "data=/mnt/data"]) == (CODE, DATA)
    assert parse_roots(["all=/"]) == (Root("all", "/"),)
    assert parse_roots([]) == ()


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (["/srv/code"], "is not NAME=/path"),
        (["Code=/srv/code"], "is not NAME=/path"),
        (["=/srv/code"], "is not NAME=/path"),
        (["code=srv"], "must be absolute"),
        (["code=/srv/code/"], "must be absolute"),
        (["code=/srv/../etc"], "must be absolute"),
        (["code=//srv"], "must be absolute"),
        (["code=/a", "code=/b"], "two roots have the name code"),
        (["code=/srv", "data=/srv/data"], "lie in each other"),
        (["code=/srv/data", "data=/srv"], "lie in each other"),
        (["code=/srv", "data=/srv"], "lie in each other"),
    ],
)
def test_bad_roots_are_refused(written: list[str], why: str) -> None:
    with pytest.raises(BadPlacement, match=why):
        parse_roots(written)


def test_folders_whose_names_begin_alike_do_not_overlap() -> None:
    assert len(parse_roots(["a=/srv/code", "b=/srv/code2"])) == 2


def test_labels_are_ordered_and_each_is_kept_once() -> None:
    assert parse_labels(["linux", "gpu", "linux"]) == ("gpu", "linux")
    with pytest.raises(BadPlacement, match="is no label"):
        parse_labels(["GPU"])


def placement(*served: Root, has_roots: bool = True, labels: tuple[str, ...] = ()) -> WorkerScope:
    return WorkerScope(has_roots, served, (CODE, DATA), frozenset(labels))


def test_a_worker_with_roots_serves_what_lies_below_those_that_it_has_verified() -> None:
    one = placement(CODE)
    assert one.serves("/srv/code")
    assert one.serves("/srv/code/shop")
    assert not one.serves("/srv/code2")
    assert not one.serves("/mnt/data/shop")
    assert not one.serves("/home/ann")
    assert not placement().serves("/srv/code")


def test_a_worker_without_roots_serves_what_lies_below_no_root() -> None:
    one = placement(has_roots=False)
    assert one.serves("/home/ann")
    assert not one.serves("/srv/code/shop")


def test_a_worker_has_all_labels_that_a_workspace_needs() -> None:
    one = placement(CODE, labels=("gpu", "linux"))
    assert one.serves("/srv/code", ["gpu"])
    assert not one.serves("/srv/code", ["gpu", "arm"])


def worker(*roots: str, missing: tuple[str, ...] = (), labels: tuple[str, ...] = ()) -> WorkerOffer:
    return WorkerOffer("alpha", roots, missing, labels)


@pytest.mark.parametrize(
    ("path", "needed", "workers", "why"),
    [
        ("/srv/code/shop", [], [], ""),
        ("/srv/code/shop", [], [worker("code")], ""),
        ("/home/ann", [], [worker()], ""),
        ("/home/ann", ["gpu"], [worker(labels=("gpu",))], ""),
        (
            "/srv/code/shop",
            [],
            [worker(), worker("data")],
            "no live worker serves the root code of its folder",
        ),
        (
            "/srv/code/shop",
            [],
            [worker("data", missing=("code",))],
            "no live worker serves the root code of its folder: it is not found on alpha",
        ),
        (
            "/home/ann",
            [],
            [worker("code"), worker(missing=("data",))],
            "no live worker serves its folder, which lies below no root",
        ),
        (
            "/srv/code/shop",
            ["gpu", "arm"],
            [worker("code", labels=("gpu",)), worker(labels=("arm", "gpu"))],
            "no live worker that serves its folder has the labels arm, gpu",
        ),
    ],
)
def test_it_says_why_no_worker_serves_a_workspace(
    path: str, needed: list[str], workers: list[WorkerOffer], why: str
) -> None:
    assert why_unserved(path, needed, roots=[CODE, DATA], workers=workers) == why
