"""Front matter as people write it, and as they break it."""

from itertools import pairwise

import pytest

from agents.skills.front_matter import BrokenFrontMatter, read_entries, split


def entries(text: str) -> dict[str, object]:
    return dict(read_entries(text.strip("\n").split("\n")))


def test_it_splits_the_front_matter_from_the_instructions() -> None:
    lines, body = split("\ufeff---\r\nname: a\r\n---\r\n\r\n# Title\r\ntext\r\n")
    assert lines == ["name: a"]
    assert body == "# Title\ntext"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("plain text", "plain text"),
        ("plain # a comment", "plain"),
        ("it's C#, really: yes", "it's C#, really: yes"),
        ('"quoted: \\"so\\" \\u00e9\\n" # comment', 'quoted: "so" é\n'),
        ("'it''s'", "it's"),
        ('"\\ud800"', "\ufffd"),
        ('"two\n  lines"', "two lines"),
        ("two\n  lines\n\n  more", "two lines\nmore"),
        (">\n  one\n  two\n\n  three", "one two\nthree"),
        (">-\n  one\n  two", "one two"),
        ("|\n  one\n    two", "one\n  two"),
        ("|2-\n    one", "  one"),
        ("yes", "yes"),
        ("1.0", "1.0"),
        ("Use when: it's broken # really", "Use when: it's broken"),
        ("", ""),
        ("# only a comment", ""),
    ],
)
def test_it_reads_texts(written: str, read: str) -> None:
    assert entries(f"before: x\nkey: {written}\nafter: y") == {
        "before": "x",
        "key": read,
        "after": "y",
    }


def test_it_reads_names_below_a_name() -> None:
    text = 'metadata:\n  author: me # and you\n  # a comment\n  version: "1.0"\nname: a'
    assert entries(text) == {"metadata": {"author": "me", "version": "1.0"}, "name": "a"}


@pytest.mark.parametrize(
    "written",
    [
        "[a, b]",
        "{a: [b]}",
        "[a,\n  b]",
        "\n  - a\n  - b",
        "\n- a\n- b",
        "\n  PreToolUse:\n    - matcher: x\n      deep: y",
        "\n  a: [1]",
    ],
)
def test_what_is_deeper_is_passed_over(written: str) -> None:
    assert entries(f"key: {written}\nname: a") == {"key": None, "name": "a"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("just words", "line 2: is not 'name: value'"),
        ("name: a\n\n- x", "line 4: expected <block end>, but found '-'"),
        ("name:value", "line 2: is not 'name: value'"),
        ("name: a\nname: b", "line 3: repeats name"),
        ('name: "open', "line 2: found unexpected end of stream"),
        ("name: 'a' b", "line 2: expected <block end>, but found '<scalar>'"),
        ("name: &anchor a", "line 2: has an anchor or alias: put the text in quotes"),
        ("name: a\nkey: *a", "line 3: has an anchor or alias: put the text in quotes"),
        ("name: !!python/object/apply:os.abort []", "line 2: has a tag: put the text in quotes"),
        ("- a", "line 2: is not 'name: value'"),
        ("? [a]\n: b", "line 2: is not 'name: value'"),
        ("name: a\x07", "the front matter contains a control character"),
        (f"name: {'[' * 16_000}", "line 2: is nested more than 10 levels deep"),
        (f"name: x\n{'? ' * 8_000}", "line 3: is nested more than 10 levels deep"),
        ("a:\n\tb: c", "line 3: found character '\\t' that cannot start any token"),
    ],
)
def test_it_names_the_line_that_is_broken(text: str, sentence: str) -> None:
    with pytest.raises(BrokenFrontMatter) as broken:
        entries(text)
    assert str(broken.value) == sentence


def test_no_alias_is_expanded() -> None:
    bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    bomb += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefgh")]
    with pytest.raises(BrokenFrontMatter, match="line 2: has an anchor or alias"):
        read_entries(bomb)


@pytest.mark.parametrize("text", ["", "name: a", " ---\nname: a\n---", "---\nname: a\n"])
def test_a_file_without_both_fences_is_broken(text: str) -> None:
    with pytest.raises(BrokenFrontMatter):
        split(text)
