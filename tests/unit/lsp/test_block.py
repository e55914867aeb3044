import pytest

from agents.tools.lsp.tools.replace_symbol import Block

TEXT = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"
START = TEXT.index("def f")
END = TEXT.index("1") + 1


def changed(action: str, given: str = "") -> str:
    return Block(TEXT, START, END).changed(action, given)


@pytest.mark.parametrize(
    "given",
    [
        "    def f(self):\n        return 9",
        "    def f(self):\n        return 9\n",
        "def f(self):\n        return 9",
        "def f(self):\n    return 9",
    ],
)
def test_it_is_replaced_at_its_depth_however_it_is_written(given: str) -> None:
    expected = "class A:\n    def f(self):\n        return 9\n\n    def g(self):"
    assert changed("replace", given).startswith(expected)


def test_a_body_that_closes_at_the_heads_depth_is_left_in_place() -> None:
    text = "impl A {\n    fn f() {\n        1\n    }\n}\n"
    block = Block(text, text.index("fn"), text.index("    }\n") + 5)
    assert block.changed("replace", "fn f() {\n        2\n    }") == text.replace("1", "2")
    assert block.changed("replace", "fn f() {\n    2\n}") == text.replace("1", "2")


def test_text_is_added_before_and_after() -> None:
    assert "class A:\n    # note\n    def f(self):" in changed("add_before", "# note")
    added = changed("add_after", "\ndef h(self):\n    return 3")
    assert "return 1\n\n    def h(self):\n        return 3\n\n    def g" in added


def test_text_is_added_after_the_last_symbol() -> None:
    text = "def f():\n    pass"
    assert Block(text, 0, len(text)).changed("add_after", "\nx = 1") == f"{text}\n\nx = 1\n"


def test_deleting_leaves_no_double_blank_lines() -> None:
    assert changed("delete") == "class A:\n\n    def g(self):\n        return 2\n"
    text = "a = 1\n\nb = 2\n\nc = 3\n"
    assert Block(text, 7, 12).changed("delete", "") == "a = 1\n\nc = 3\n"
    assert Block(text, 0, 5).changed("delete", "") == "b = 2\n\nc = 3\n"


def test_what_shares_its_line_is_changed_where_it_stands() -> None:
    text = "a = 1; b = 2; c = 3\n"
    start, end = text.index("b"), text.index("; c")
    assert Block(text, start, end).changed("replace", "b = 9") == "a = 1; b = 9; c = 3\n"
    assert Block(text, start, end).changed("delete", "") == "a = 1; ; c = 3\n"
    assert Block(text, start, end).changed("add_after", "; d") == "a = 1; b = 2; d; c = 3\n"
