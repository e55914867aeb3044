import time

import pytest

from agents.tools.search.patterns import BadPattern, Pattern


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/er/a.py", True),
        ("*.py", "a.pyc", False),
        ("./*.py", "a.py", True),
        ("/a.py", "a.py", True),
        ("/a.py", "b/a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/*.py", "x/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/b/c/a.py", True),
        ("**/test/*.py", "test/a.py", True),
        ("**/test/*.py", "a/test/b/test/a.py", True),
        ("**/test/*.py", "a/test/b/a.py", False),
        ("src/**", "src/a/b", True),
        ("src/**", "src", False),
        ("**", "a/b", True),
        ("**/**/a", "x/y/a", True),
        ("a/**/b/**/c", "a/x/b/y/z/c", True),
        ("a/**/b/**/c", "a/x/y/z/c", False),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.js", False),
        ("{a,b/{c,d}}/x", "b/d/x", True),
        ("{a", "{a", True),
        ("a}", "a}", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("?.txt", "ab.txt", False),
        ("[.txt", "[.txt", True),
        ("a*", "a\nb", True),
        ("A.txt", "a.txt", False),
    ],
)
def test_it_matches_paths(pattern: str, path: str, fits: bool) -> None:
    assert Pattern(pattern).matches(path.split("/")) is fits


def test_it_matches_a_hostile_pattern_quickly() -> None:
    pattern = Pattern("*a" * 200 + "/" + "**/x/" * 50 + "b")
    began = time.process_time()
    assert not pattern.matches(["a" * 250, *["x"] * 200])
    assert time.process_time() - began < 1


@pytest.mark.parametrize("pattern", ["a" * 1_001, "{a,b}" * 10, "{" + "a," * 200 + "}"])
def test_it_refuses_patterns_that_are_too_much(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "hidden"),
    [(".github/**", True), ("**/.env", True), ("*.py", False), ("a/{.b,c}", True), ("**", False)],
)
def test_it_tells_whether_hidden_names_are_asked_for(pattern: str, hidden: bool) -> None:
    assert Pattern(pattern).names_hidden is hidden
