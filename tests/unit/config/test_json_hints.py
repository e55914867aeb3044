import pytest

from agents.config.parse import parse_bytes


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ('{\n  "a": 1,\n}', 3, "remove the comma before it"),
        ('{"a": [1, 2,\n]}', 2, "remove the comma before it"),
        ('{"a": 1\n"b": 2}', 2, "put a comma before it, or close what is open"),
        ('{"a" 1}', 1, "put a colon between the name and its value"),
        ('{\n// why\n"a": 1}', 2, "JSON has no comments: remove it"),
        ('{"a": 1, # why\n}', 1, "JSON has no comments: remove it"),
        ("{'a': 1}", 1, "use double quotes"),
        ("{a: 1}", 1, "put names in double quotes, and no comma after the last"),
        (
            '{"a": yes}',
            1,
            "put a value there: a text in double quotes, a number, true, false or null",
        ),
        ('{"a": "b}', 1, "close this text with a double quote"),
        ('{"a": {"b": 1}', 1, "the file ends too early: close what is open"),
        ('{"a": 1}}', 1, "remove what follows the last brace"),
        ('{"a": "b\nc"}', 1, "write line breaks and tabs in a text as \\n and \\t"),
        ('{"a": "C:\\dir"}', 1, "write a backslash in a text as \\\\"),
        ('<<<<<<< HEAD\n{"a": 1}', 1, "resolve the merge conflict"),
        ("{,}", 1, "remove the extra comma"),
    ],
)
def test_a_broken_text_is_told_with_its_line_and_what_to_do(text: str, line: int, hint: str):
    tree, problem = parse_bytes(text.encode(), file="crush.json")
    assert tree == {}
    assert problem is not None
    assert problem.line == line
    assert problem.message.startswith("it is not JSON: ")
    assert problem.message.endswith(f"; {hint}")


def test_it_never_repeats_the_text():
    _, problem = parse_bytes(b'{"api_key": sk-secret}', file="f")
    assert "sk-secret" not in str(problem)
