"""Which faults are put into a source file, and which are not."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.operators import mutants_of


def changed(source: str) -> set[str]:
    """Each mutant of the source as a whole."""
    given = source.encode()
    return {mutant.applied(given).decode() for mutant in mutants_of("m.py", given)}


def body(statement: str) -> str:
    return f"def f(a, b):\n    {statement}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return a == b", "return a != b"),
        ("return a < b", "return a <= b"),
        ("return a < b", "return a > b"),
        ("return a >= b", "return a > b"),
        ("return a is not b", "return a is b"),
        ("return a not  in b", "return a in b"),
        ("return a and b", "return a or b"),
        ("return a and b", "return a and True"),
        ("return a or b", "return False or b"),
        ("return not a", "return (a)"),
        ("return a + 3", "return a - 3"),
        ("return a + 3", "return a + 4"),
        ("return a + 3", "return a + 2"),
        ("return a", "return None"),
        ("return f(True, b)", "return f(False, b)"),
        ("return a[-3:]", "return a[:-3]"),
        ("return a[:3]", "return a[3:]"),
        ("return min(a, b)", "return max(a, b)"),
        ("return all(a)", "return any(a)"),
        ("return sorted(a)", "return list(a)"),
        ("a.append(b)", "pass"),
        ("a.x = b", "pass"),
        ("a += b", "pass"),
        ("raise ValueError(a)", "pass"),
        ("return a == 'x'", "return a == 'x?'"),
        ("return [x for x in a if x > b]", "return [x for x in a if not (x > b)]"),
        ("return a.filter(x=a, y=b)", "return a.filter(x=a)"),
        ("return 'ä' == a", "return 'ä' != a"),
    ],
)
def test_it_changes_one_thing(before: str, after: str) -> None:
    found = {ast.unparse(ast.parse(source)) for source in changed(body(before))}
    assert ast.unparse(ast.parse(body(after))) in found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a.x = 'SELECT b FROM c WHERE d = %s'", "WHERE (d = %s OR 1 = 1)"),
        ("a.x = 'SELECT b FROM c WHERE d = 1 AND e = 2'", "d = 1 AND (e = 2 OR 1 = 1)"),
        ("a.x = 'SELECT b FROM c WHERE d < %s'", "d <= %s"),
        ("a.x = 'SELECT b FROM c ORDER BY d DESC'", "ORDER BY d'"),
        ("a.x = f'UPDATE {b} SET c = c + 1'", "c = c + 0 * 1"),
        ("a.x = \"SELECT b FROM c WHERE d IN ('e', 'f')\"", "IN ('f')"),
        ("a.x = 'SELECT b FROM c WHERE NOT EXISTS (x)'", "WHERE EXISTS"),
    ],
)
def test_it_changes_conditions_of_sql(before: str, after: str) -> None:
    assert any(after in source for source in changed(body(before)))


@pytest.mark.parametrize(
    "source",
    [
        "import a\n",
        "LIMIT = 3\n",
        "FEW, MANY = 3, 9\n",
        '"""SELECT a FROM b WHERE c = d"""\n',
        body('"""A sentence."""'),
        body("logger.info('a %s', b)"),
        body("raise AssertionError"),
        body("return None"),
        "def f(a: int | None = None) -> int | None: ...\n",
        "class P(Protocol):\n    def f(self) -> int:\n        return 1\n",
        "@dataclass(frozen=True)\nclass C:\n    a: int\n",
    ],
)
def test_it_leaves_alone_what_is_no_fault(source: str) -> None:
    assert changed(source) == set()


def test_a_mutant_keeps_its_id_when_another_function_changes() -> None:
    one = "def f(a):\n    return a == 1\n"
    ids = {mutant.id for mutant in mutants_of("m.py", one.encode())}
    longer = "def g(a):\n    return a < 7\n\n\n" + one
    assert ids < {mutant.id for mutant in mutants_of("m.py", longer.encode())}


def test_equal_edits_of_one_function_have_ids_of_their_own() -> None:
    source = body("return a == b or b == a")
    mutants = mutants_of("m.py", source.encode())
    assert len({mutant.id for mutant in mutants}) == len(mutants)
    assert sum(mutant.after == "!=" for mutant in mutants) == 2


def test_a_mutant_names_the_lines_of_its_statement() -> None:
    source = "def f(a):\n    if (a ==\n            1):\n        return 2\n"
    condition = next(m for m in mutants_of("m.py", source.encode()) if m.after == "!=")
    assert (condition.function, condition.lines) == ("f", (2, 3))
