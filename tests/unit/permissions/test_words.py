"""Words are read as the shell reads them, or not at all."""

from __future__ import annotations

import pytest

from permissions.policy.words import Shape, Word, WordDoubt, read_words


def read(source):
    def no_substitution(_start):
        raise WordDoubt("It holds a substitution.")

    data = source.encode().decode("latin-1")
    return read_words(data, 0, len(data), substitution=no_substitution)


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("", []),
        ("  a  b\t", ["a", "b"]),
        ("''", [""]),
        ('""', [""]),
        ("a'b c'd", ["ab cd"]),
        ('a"b c"d', ["ab cd"]),
        ("\\a\\ b\\;", ["a b;"]),
        ("'a\\b'", ["a\\b"]),
        ('"a\\b\\$\\"\\\\"', ['a\\b$"\\']),
        ("'é' \"ü\"", ["é", "ü"]),
        ("$'a\\tb\\n\\'\\\\'", ["a\tb\n'\\"]),
        ("'*' \"?\" \\[", ["*", "?", "["]),
        ("{a} HEAD@{1} '{a,b}' {a','b}", ["{a}", "HEAD@{1}", "{a,b}", "{a,b}"]),
        ("a$ \"b$\" c$/d", ["a$", "b$", "c$/d"]),
        ("a#b", ["a#b"]),
        ("'a\nb'", ["a\nb"]),
    ],
)  # fmt: skip
def test_it_takes_quotes_away(source, texts):
    assert [word.exact for word in read(source)] == texts


@pytest.mark.parametrize(
    ("source", "text", "shape"),
    [
        ("$x", "", Shape.LOOSE),
        ("${x}", "", Shape.LOOSE),
        ("a$x", "a", Shape.LOOSE),
        ('"$x"', "", Shape.ONE),
        ('a"b$x"c', "ab", Shape.ONE),
        ('"$@"', "", Shape.LOOSE),
        ('"${x:-b}"', "", Shape.ONE),
        ("$((1+2))", "", Shape.ONE),
        ("*.py", "", Shape.EACH),
        ("src/*.py", "src/", Shape.EACH),
        ("a?", "a", Shape.EACH),
        ("[a]b", "", Shape.EACH),
        ("x{a,b}", "x", Shape.EACH),
        ("{1..3}", "", Shape.EACH),
        ('a*"$x"', "a", Shape.EACH),
        ("a*b?c[d]", "a", Shape.EACH),
        ("ab?c*", "ab", Shape.EACH),
        ('"$x"*', "", Shape.EACH),
        ("$x*", "", Shape.LOOSE),
        ("$HOME/a", "/", Shape.ONE),
        ('"$PWD"', "/", Shape.ONE),
        ("$PWD", "", Shape.LOOSE),
    ],
)
def test_it_keeps_only_what_is_certain(source, text, shape):
    assert read(source) == (Word(text, shape),)


@pytest.mark.parametrize(
    "source",
    [
        "'a", '"a', '"a\\', "a\\", "a\\\nb", '"a\\\nb"', "a;b", "a&", "a|b", "(a)", "a>b", "a<b", "a\nb",
        "#a", "é", "\\é", "$(a)", "`a`", '"$(a)"', "<(a)", ">(a)", "$[1]", "${x:=1}", "${!x}", "${x@P}",
        "${a[0]}", "${x:1}", "${x/a/b}", "$((x))", "$'\\x41'", '$"a"', '"$\'a"', "a$'b",
    ],
)  # fmt: skip
def test_it_doubts_what_may_be_read_otherwise(source):
    with pytest.raises(WordDoubt):
        read(source)


def test_it_doubts_a_substitution_that_ends_behind_the_word():
    with pytest.raises(WordDoubt):
        read_words("$(a)", 0, 3, substitution=lambda start: start + 4)


@pytest.mark.parametrize(
    ("word", "safe"),
    [
        (Word("a"), True),
        (Word("-"), True),
        (Word(""), True),
        (Word("-a"), False),
        (Word("a", Shape.ONE), True),
        (Word("a", Shape.EACH), True),
        (Word("a", Shape.LOOSE), False),
        (Word("", Shape.ONE), False),
        (Word("-", Shape.ONE), False),
        (Word("(", Shape.EACH), False),
    ],
)
def test_it_knows_what_can_never_become_an_option(word, safe):
    assert word.is_operand is safe
