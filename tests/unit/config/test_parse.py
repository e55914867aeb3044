import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.config.parse import DEPTH_LIMIT, SIZE_LIMIT, parse_bytes, parse_file


def problem_of(data: bytes):
    tree, problem = parse_bytes(data, file="crush.json")
    assert tree == {}
    assert problem is not None
    return problem


def test_it_names_the_file_line_and_column_of_what_is_broken():
    problem = problem_of(b'{\n  "options": {\n    "debug": tr\n  }\n}')
    assert (problem.file, problem.line, problem.column) == ("crush.json", 3, 14)
    assert str(problem).startswith("crush.json:3:14: it is not JSON")


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b'{"a": 1,}', 1, 8),
        (b'{"a": 1', 1, 8),
        (b'{"a": "\xff"}', 1, 8),
        (b'{\n"a": "\xff"}', 2, 7),
        (b'{\n"a": "\0"}', 2, 7),
        (b"\0", 1, 1),
        (b"[]", 1, 1),
        (b'"text"', 1, 1),
        (b"null", 1, 1),
    ],
)
def test_it_finds_the_place(data: bytes, line: int, column: int):
    problem = problem_of(data)
    # The standard library counts an illegal trailing comma in two ways over its versions.
    assert problem.line == line
    assert abs(problem.column - column) <= 1


@pytest.mark.parametrize("data", [b"", b" \n", b"\xef\xbb\xbf{}", b"{}"])
def test_an_empty_file_is_no_problem(data: bytes):
    assert parse_bytes(data, file="x") == ({}, None)


@pytest.mark.parametrize("data", [b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}'])
def test_it_refuses_numbers_that_are_none(data: bytes):
    assert "not JSON" in problem_of(data).message


def test_very_long_integers_cost_nothing_and_become_floats():
    tree, problem = parse_bytes(b'{"a": ' + b"9" * 200 + b', "b": 9223372036854775808}', file="x")
    assert problem is None
    assert isinstance(tree["a"], float)
    assert isinstance(tree["b"], float)


@pytest.mark.parametrize("depth", [DEPTH_LIMIT + 1, 500, 5_000, 400_000])
@pytest.mark.parametrize(("left", "right"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_deep_nesting_is_a_problem(depth: int, left: bytes, right: bytes):
    data = b'{"x":' + left * depth + b"1" + right * depth + b"}"
    assert "nested" in problem_of(data).message


def test_the_deepest_nesting_allowed_is_none():
    data = b'{"x":' + b"[" * (DEPTH_LIMIT - 1) + b"]" * (DEPTH_LIMIT - 1) + b"}"
    assert parse_bytes(data, file="x")[1] is None


def test_lone_surrogates_cannot_break_an_encoder_later():
    tree, problem = parse_bytes(rb'{"\ud800": ["\udfff", "\u00e4", "\ud83d\ude00"]}', file="x")
    assert problem is None
    assert list(tree) == ["?"]
    assert tree["?"] == ["?", "ä", "😀"]


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(data: bytes):
    parse_bytes(data, file="x")


@given(st.text(alphabet='{}[]":,\\u0d8tfn1e-. \n', max_size=200))
def test_no_text_makes_it_raise(text: str):
    parse_bytes(text.encode(), file="x")


def test_a_missing_file_is_empty_and_no_problem(tmp_path):
    parsed = parse_file(str(tmp_path / "crush.json"))
    assert (parsed.tree, parsed.problems, parsed.present) == ({}, (), False)


def test_a_path_through_a_file_is_missing(tmp_path):
    (tmp_path / "file").write_text("x")
    assert not parse_file(str(tmp_path / "file" / "crush.json")).present


def test_a_file_over_the_limit_is_not_read(tmp_path):
    file = tmp_path / "crush.json"
    file.write_bytes(b'{"a":"' + b"x" * SIZE_LIMIT + b'"}')
    (problem,) = parse_file(str(file)).problems
    assert "larger" in problem.message


def test_a_folder_is_not_a_regular_file(tmp_path):
    (problem,) = parse_file(str(tmp_path)).problems
    assert "not a regular file" in problem.message


def test_a_fifo_does_not_hang(tmp_path):
    fifo = tmp_path / "crush.json"
    os.mkfifo(fifo)
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(parse_file(str(fifo))), daemon=True)
    thread.start()
    thread.join(5)
    assert done
    assert "not a regular file" in done[0].problems[0].message


def test_a_device_is_not_opened():
    (problem,) = parse_file("/dev/zero").problems
    assert "not a regular file" in problem.message


def test_a_loop_of_symlinks_is_a_problem(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert parse_file(str(tmp_path / "a")).problems


@pytest.mark.parametrize("path", ["a\0b", "x" * 5_000, "\ud800"])
def test_an_impossible_path_is_a_problem_or_missing(path: str):
    parsed = parse_file(path)
    assert parsed.tree == {}


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_a_problem(tmp_path):
    file = tmp_path / "crush.json"
    file.write_text("{}")
    file.chmod(0)
    assert "cannot be read" in parse_file(str(file)).problems[0].message
