from pathlib import Path

import pytest

from agents.tools.lsp.languages import fits, language_of, languages_in
from agents.tools.lsp.positions import address_of, path_of


@pytest.mark.parametrize("path", ["/a/b.py", "/with space/ü#?.py", "/a/%20b"])
def test_a_path_comes_back_from_its_address(path: str) -> None:
    assert path_of(address_of(path)) == Path(path)


def test_addresses_are_cleaned_and_decoded() -> None:
    assert path_of("file://localhost/a/../b%2Ec") == Path("/b.c")


@pytest.mark.parametrize(
    "address",
    [
        "http://x/a",
        "file://other/a",
        "untitled:1",
        "file:///a%00b",
        "file:relative",
        "file:///" + "x" * 99_999,
        "file://[",
        "file:///%ff",
        5,
        None,
    ],
)
def test_what_is_no_file_of_this_machine_is_none(address: object) -> None:
    assert path_of(address) is None


def test_languages_are_known_by_extension_and_by_name() -> None:
    assert language_of("/a/B.PY") == "python"
    assert language_of("Dockerfile") == "dockerfile"
    assert language_of("x.unknown") == "plaintext"


def test_file_types_are_extensions_or_languages() -> None:
    assert fits("a.py", ("py",))
    assert fits("a.pyi", ("python",))
    assert fits("a.sh", ("bash",))
    assert fits("a.xyz", ())
    assert not fits("a.go", ("python", "ts"))
    assert languages_in(("py", "bash", "rust", "xyz")) == {"python", "shellscript", "rust", "xyz"}
