"""The figures about the layout: what each one counts, and what it leaves out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.house import measures
from tests.house.measures import Module

ROOT = Path(__file__).parents[3]


def module(path: str, text: str = "x = 1\n") -> Module:
    return Module(PurePosixPath(path), text)


def private_names(*modules: Module, allowed: tuple[str, ...] = ()) -> list[str]:
    found = measures.foreign_private_names(modules, own_packages=["app"], allowed=allowed)
    return [each.name for each in found]


def test_migrations_and_empty_files_are_left_out(tmp_path: Path) -> None:
    for name in ("app/a.py", "app/migrations/0001_first.py", "app/deep/b.py", "other/c.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n")
    (tmp_path / "app" / "__init__.py").write_text("\n")
    found = measures.read_modules(tmp_path, ["app"])
    assert [str(each.path) for each in found] == ["app/a.py", "app/deep/b.py"]


@pytest.mark.parametrize(
    ("path", "name"), [("app/deep/b.py", "app.deep.b"), ("app/deep/__init__.py", "app.deep")]
)
def test_a_module_has_the_name_that_imports_use(path: str, name: str) -> None:
    assert module(path).name == name


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], "0 / 0 / 0"),
        ([5], "5 / 5 / 5"),
        ([4, 1, 3, 2], "2 / 4 / 4"),
        (list(range(1, 101)), "50 / 91 / 100"),
    ],
)
def test_a_spread_is_median_p90_and_largest(sizes: list[int], expected: str) -> None:
    assert str(measures.spread(sizes)) == expected


def test_functions_count_from_def_to_their_last_line() -> None:
    text = "@a\n@b\ndef one():\n    '''Says.'''\n    return 1\n\n\nasync def two(): pass\n"
    methods = "class A:\n    def three(self):\n        def four(): pass\n        return four\n"
    found = measures.function_lines([module("app/a.py", text), module("app/b.py", methods)])
    assert (found.median, found.largest) == (1, 3)


def test_the_largest_folder_counts_only_what_is_directly_in_it() -> None:
    modules = [module(f"app/deep/{name}.py") for name in "ab"] + [module("app/c.py")]
    assert measures.largest_folders(modules)[0] == (PurePosixPath("app/deep"), 2)


@pytest.mark.parametrize(
    "text",
    [
        "import app.target\n",
        "from app import target\n",
        "from app.target import x\n",
        "def f():\n    from app.target import x\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.target import x\n",
    ],
)
def test_each_form_of_import_makes_an_importer(text: str) -> None:
    modules = [module("app/__init__.py"), module("app/target.py"), module("app/user.py", text)]
    assert measures.importers(modules)["app.target"] == {"app.user"}


def test_a_name_of_a_package_is_an_import_of_the_package() -> None:
    modules = [module("app/deep/__init__.py"), module("app/b.py", "from app.deep import x\n")]
    assert measures.importers(modules) == {"app.deep": {"app.b"}}


def test_a_lone_importer_counts_only_in_the_same_folder() -> None:
    use = "from app.deep.one import x\n"
    beside = [module("app/deep/one.py"), module("app/deep/user.py", use)]
    assert measures.single_importers(beside) == [(beside[0], beside[1])]
    assert measures.single_importers([*beside, module("app/second.py", use)]) == []
    assert measures.single_importers([beside[0], module("app/user.py", use)]) == []


def test_a_class_name_counts_once_for_all_its_classes() -> None:
    modules = [
        module("app/a.py", "class Place: pass\nclass Alone: pass\nclass Meta: pass\n"),
        module("app/b.py", "class Outer:\n    class Place: pass\n    class Meta: pass\n"),
    ]
    paths = [PurePosixPath("app/a.py"), PurePosixPath("app/b.py")]
    assert measures.duplicate_classes(modules) == {"Place": paths}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from lib._inner import public\n", "lib._inner.public"),
        ("from lib import _hidden\n", "lib._hidden"),
        ("import lib._inner\n", "lib._inner"),
        ("def f(client): return client._socket\n", "client._socket"),
        ("def f(client): client.inner._socket.close()\n", "client.inner._socket"),
        ("class A(B):\n    def f(self): return self._of_the_base\n", "self._of_the_base"),
        ("x = getattr(object(), '_socket', None)\n", "getattr(object(), '_socket', None)"),
    ],
)
def test_private_names_of_libraries_are_found(text: str, name: str) -> None:
    assert private_names(module("app/a.py", text)) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "from app.b import _ours\n",
        "from os import _exit\n",
        "import os\nos._exit(1)\n",
        "class A:\n    def __init__(self): self._x = 1\n    def f(self, other): return other._x\n",
        "def f(model): return model._meta\n",
        "def f(item): return item.__class__\n",
        "for _, x in (): print(_, x)\n",
        "name = '_socket'\nx = getattr(object(), name)\n",
    ],
)
def test_own_standard_and_documented_names_are_not_counted(text: str) -> None:
    assert private_names(module("app/a.py", text)) == []


def test_a_private_name_of_a_base_class_in_the_tree_is_our_own() -> None:
    base = module("app/base.py", "class Base:\n    def _step(self): pass\n")
    child = "class A(Base):\n    def f(self): self._step()\n"
    assert private_names(base, module("app/child.py", child)) == []
    assert private_names(module("app/child.py", child)) == ["self._step"]


def test_the_folders_of_the_server_are_allowed_and_no_others() -> None:
    text = "from lib import _hidden\n"
    modules = [module("app/server/a.py", text), module("app/server_more/a.py", text)]
    found = measures.foreign_private_names(modules, own_packages=["app"], allowed=["app/server"])
    assert [str(each) for each in found] == ["app/server_more/a.py:1 lib._hidden"]


def test_comments_are_lines_of_their_own_outside_of_texts() -> None:
    text = '# one\nx = """\n# none\n"""  # behind code\ny = f"""\n# none\n{x}"""\n    # two\n'
    assert measures.comment_share([module("app/a.py", text)]) == 2 / 8
    assert measures.comment_share([]) == 0


def test_the_report_names_every_measure_and_lists_what_it_counts() -> None:
    arguments = [sys.executable, "-m", "tests.house", "--list"]
    found = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    table, _, details = found.stdout.partition("\n\n")
    for name in ("modules", "largest folder", "class names used more than once"):
        assert f"| {name} | " in table
    assert "Private names of libraries outside the server:" in details


def test_a_folder_without_the_packages_is_an_error(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "tests.house", "--root", str(tmp_path)]
    found = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "has no modules" in found.stderr
