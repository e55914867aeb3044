"""The layout's figures: what is reached stays, and what is not reached yet does not grow."""

from __future__ import annotations

import pytest

from tests.house import measures
from tests.house.__main__ import PACKAGES, ROOT, SERVER_FOLDERS
from tests.house.measures import Module


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return measures.read_modules(ROOT, PACKAGES)


def test_no_folder_has_more_than_twenty_modules(modules: list[Module]) -> None:
    assert [folder for folder, size in measures.largest_folders(modules) if size > 20] == []


def test_no_module_has_more_than_four_hundred_lines(modules: list[Module]) -> None:
    assert [str(module.path) for module in modules if len(module.lines) > 400] == []


def test_each_class_has_a_name_of_its_own(modules: list[Module]) -> None:
    assert measures.duplicate_classes(modules) == {}


def test_modules_with_a_single_importer_beside_them_do_not_become_more(
    modules: list[Module],
) -> None:
    # The target is 30. Lower the number with each merge; `python -m tests.house --list` names them.
    assert len(measures.single_importers(modules)) <= 30


def test_no_private_name_of_a_library_is_used_outside_the_server(modules: list[Module]) -> None:
    assert (
        measures.foreign_private_names(modules, own_packages=PACKAGES, allowed=SERVER_FOLDERS) == []
    )


def test_modules_and_functions_do_not_become_longer(modules: list[Module]) -> None:
    # The targets are 125 and 280 lines for modules, and 7, 18 and 69 for functions.
    sizes, functions = measures.module_lines(modules), measures.function_lines(modules)
    assert sizes.median <= 145
    assert sizes.p90 <= 310
    assert functions.median <= 7
    assert functions.p90 <= 19
    assert functions.largest <= 69


def test_the_client_is_no_larger_and_names_its_classes_once() -> None:
    # A program of its own: its names may be those of the server's classes.
    found = measures.read_modules(ROOT, ["crushclient"])
    client = [module for module in found if "api" not in module.path.parts]  # generated
    assert client
    assert [folder for folder, size in measures.largest_folders(client) if size > 20] == []
    assert [str(module.path) for module in client if len(module.lines) > 400] == []
    assert measures.duplicate_classes(client) == {}
    assert measures.function_lines(client).largest <= 69
    assert measures.foreign_private_names(client, own_packages=["crushclient"], allowed=()) == []
