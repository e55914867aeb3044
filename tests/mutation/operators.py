"""All the small faults that can be put into one source file. Pure.

A mutant is one edit of the text, at a place that ``ast`` names. Log lines, sentences for
people, annotations, decorators and the numbers of module constants stay as they are: a
changed limit or sentence is no fault that a test should know.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

_FLIPPED = {
    ast.Eq: [("==", "!=")],
    ast.NotEq: [("!=", "==")],
    ast.Lt: [("<", "<="), ("<", ">")],
    ast.LtE: [("<=", "<")],
    ast.Gt: [(">", ">="), (">", "<")],
    ast.GtE: [(">=", ">")],
    ast.Is: [("is", "is not")],
    ast.IsNot: [("is not", "is")],
    ast.In: [("in", "not in")],
    ast.NotIn: [("not in", "in")],
}
_ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.BitOr: ("|", "&"),
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_SQL = re.compile(r"\b(SELECT|UPDATE|DELETE FROM|INSERT INTO|WHERE|ORDER BY|AND [a-z]\.)\b")
_CONDITION = r"[\w.]+ (?:=|<>|<=|>=|<|>) (?:%s|'\w*'|\w[\w.]*)"
# Edits of SQL keep the number of parameters, or every one would fail at once.
_SQL_EDITS = [
    (rf" AND (?!NOT)({_CONDITION})", r" AND (\1 OR 1 = 1)"),
    (rf"WHERE ({_CONDITION})", r"WHERE (\1 OR 1 = 1)"),
    (r" < ", " <= "),
    (r" <= ", " < "),
    (r" > ", " >= "),
    (r" >= ", " > "),
    (r" <> ", " = "),
    (r" DESC\b", ""),
    (r"NOT EXISTS", "EXISTS"),
    (r"(\w+ = \w+) [+] (1|%s)", r"\1 + 0 * \2"),
    (r"\('(\w+)', ", "("),
    (r", '(\w+)'\)", ")"),
]
_Statement = ast.stmt


@dataclass(frozen=True)
class Mutant:
    path: str
    function: str  # the qualified name of what it is in; empty for the module
    line: int
    operator: str
    before: str  # the text that is replaced
    after: str
    start: int  # in bytes of the file
    end: int
    lines: tuple[int, int]  # first and last line of the statement (of a block: of its head)
    ordinal: int = 0  # among equal edits of one function
    around: tuple[int, int] = (0, 0)  # first and last line of the function

    @property
    def id(self) -> str:
        """Stays the same when other functions of the file change."""
        facts = (self.path, self.function, self.operator, self.before, self.after, self.ordinal)
        return hashlib.sha256("\0".join(map(str, facts)).encode()).hexdigest()[:10]

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Each of them is valid Python and says something else than the source."""
    tree = ast.parse(source)
    original = ast.dump(tree)
    found: dict[tuple[str, str, str, str], int] = {}
    kept: list[Mutant] = []
    for mutant in _Finder(path, source).find(tree):
        try:
            changed = ast.dump(ast.parse(mutant.applied(source)))
        except (SyntaxError, ValueError):
            continue
        if changed == original:
            continue
        key = (mutant.function, mutant.operator, mutant.before, mutant.after)
        ordinal = found[key] = found.get(key, -1) + 1
        kept.append(Mutant(**{**mutant.__dict__, "ordinal": ordinal}))
    return kept


class _Finder:
    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts = starts
        self._names: list[str] = []
        self._lines = (1, 1)
        self._around = (0, 0)

    def find(self, tree: ast.Module) -> Iterator[Mutant]:
        yield from self._block(tree.body)

    # -- statements

    def _block(self, statements: list[ast.stmt]) -> Iterator[Mutant]:
        for statement in statements:
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Mutant]:
        blocks = [getattr(node, name, None) or [] for name in ("body", "orelse", "finalbody")]
        first_inside = min((b.lineno for block in blocks for b in block), default=None)
        last = node.end_lineno or node.lineno
        self._lines = (
            node.lineno,
            last if first_inside is None else max(node.lineno, first_inside - 1),
        )
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self._definition(node)
            return
        if _is_left_alone(node):
            return
        yield from self._removals(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and child is not getattr(node, "annotation", None):
                if not (
                    self._is_constant_of_module(node)
                    and isinstance(child, ast.Constant | ast.Tuple)
                ):
                    yield from self._expression(child)
            elif isinstance(child, ast.withitem):
                yield from self._expression(child.context_expr)
        if isinstance(node, ast.If | ast.While) and not _has_its_own_negation(node.test):
            yield self._edit(node.test, "negated condition", f"not ({self._text(node.test)})")
        for block in blocks:
            yield from self._block(block)
        for handler in getattr(node, "handlers", []):
            yield from self._block(handler.body)
        for case in getattr(node, "cases", []):
            yield from self._block(case.body)

    def _definition(
        self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[Mutant]:
        if isinstance(node, ast.ClassDef) and any(_name(base) == "Protocol" for base in node.bases):
            return
        if node.name in {"__repr__", "__str__"}:
            return
        outside, self._around = self._around, (node.lineno, node.end_lineno or node.lineno)
        self._names.append(node.name)
        if not isinstance(node, ast.ClassDef):
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                yield from self._expression(default)
        yield from self._block(node.body)
        self._names.pop()
        self._around = outside

    def _is_constant_of_module(self, node: ast.stmt) -> bool:
        return not self._names and isinstance(node, ast.Assign | ast.AnnAssign)

    def _removals(self, node: ast.stmt) -> Iterator[Mutant]:
        match node:
            case (
                ast.Expr(value=ast.Call() | ast.Await())
                | ast.AugAssign()
                | ast.Raise()
                | ast.Delete()
            ):
                yield self._edit(node, "removed statement", "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if self._names:
                yield self._edit(node, "removed statement", "pass")
            case ast.Return(value=ast.expr()) if not _is_none(node.value):
                yield self._edit(node, "return None", "return None")
            case ast.Continue():
                yield self._edit(node, "continue", "break")
            case ast.Break():
                yield self._edit(node, "break", "continue")

    # -- expressions

    def _expression(self, node: ast.expr) -> Iterator[Mutant]:
        yield from self._edits(node)
        if isinstance(node, ast.JoinedStr):  # Python 3.11 does not know the places inside
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from self._expression(child)
            elif isinstance(child, ast.keyword):
                yield from self._expression(child.value)
            elif isinstance(child, ast.comprehension):
                yield from self._expression(child.iter)
                for condition in child.ifs:
                    if not _has_its_own_negation(condition):
                        negated = f"not ({self._text(condition)})"
                        yield self._edit(condition, "negated condition", negated)
                    yield from self._expression(condition)

    def _edits(self, node: ast.expr) -> Iterator[Mutant]:
        match node:
            case ast.Compare():
                yield from self._comparison(node)
            case ast.BoolOp():
                yield from self._bool_op(node)
            case ast.UnaryOp(op=ast.Not()):
                yield self._edit(node, "dropped not", f"({self._text(node.operand)})")
            case ast.IfExp() if not _has_its_own_negation(node.test):
                yield self._edit(node.test, "negated condition", f"not ({self._text(node.test)})")
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                yield from self._between(
                    node.left, node.right, "arithmetic", *_ARITHMETIC[type(node.op)]
                )
            case ast.Call():
                yield from self._call(node)
            case ast.Constant(value=bool()):
                yield self._edit(node, "constant", str(not node.value))
            case ast.Constant(value=int()):
                yield self._edit(node, "constant", str(node.value + 1))
                if node.value > 0:
                    yield self._edit(node, "constant", str(node.value - 1))
            case ast.Constant(value=str()) | ast.JoinedStr():
                yield from self._sql(node)
            case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=None)):
                yield from self._slice(node.slice, lower, upper)

    def _comparison(self, node: ast.Compare) -> Iterator[Mutant]:
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            for before, after in _FLIPPED[type(operation)]:
                yield from self._between(left, right, "comparison", before, after)
            if isinstance(right, ast.Constant) and isinstance(right.value, str) and right.value:
                yield self._edit(right, "constant", repr(right.value + "?"))
            left = right

    def _bool_op(self, node: ast.BoolOp) -> Iterator[Mutant]:
        is_and = isinstance(node.op, ast.And)
        old, new, ignored = ("and", "or", "True") if is_and else ("or", "and", "False")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from self._between(left, right, "and/or", old, new)
        for value in node.values:
            yield self._edit(value, "dropped operand", ignored)

    def _call(self, node: ast.Call) -> Iterator[Mutant]:
        name = _name(node.func)
        if isinstance(node.func, ast.Name) and name in _CALLS:
            yield self._edit(node.func, "other function", _CALLS[name])
        if name in {"filter", "exclude"} and len(node.keywords) > 1:  # a dropped WHERE condition
            for keyword in node.keywords:
                if keyword.arg is not None:
                    text = self._text(node).replace(
                        f"{keyword.arg}={self._text(keyword.value)}", "", 1
                    )
                    yield self._edit(
                        node, "dropped filter", text.replace("(, ", "(").replace(", ,", ",")
                    )

    def _slice(
        self, node: ast.expr, lower: ast.expr | None, upper: ast.expr | None
    ) -> Iterator[Mutant]:
        if lower is not None and upper is None:
            yield self._edit(node, "slice", f":{self._text(lower)}")
        elif upper is not None and lower is None:
            yield self._edit(node, "slice", f"{self._text(upper)}:")

    def _sql(self, node: ast.expr) -> Iterator[Mutant]:
        text = self._text(node)
        if not _SQL.search(text) or text.lstrip("rbf").startswith('"""'):
            return
        for pattern, replacement in _SQL_EDITS:
            for match in re.finditer(pattern, text):
                start = self._offset(node.lineno, node.col_offset)
                begin = start + len(text[: match.start()].encode())
                yield self._at(node, "SQL", begin, match.group(), match.expand(replacement))

    # -- places

    def _between(
        self, left: ast.expr, right: ast.expr, operator: str, old: str, new: str
    ) -> Iterator[Mutant]:
        start = self._offset(left.end_lineno or 0, left.end_col_offset or 0)
        end = self._offset(right.lineno, right.col_offset)
        gap = self._source[start:end].decode()
        pattern = re.compile(r"\s+".join(map(re.escape, old.split())))
        if match := pattern.search(gap):
            begin = start + len(gap[: match.start()].encode())
            yield self._at(left, operator, begin, match.group(), new)

    def _edit(self, node: ast.expr | ast.stmt, operator: str, after: str) -> Mutant:
        start = self._offset(node.lineno, node.col_offset)
        return self._at(node, operator, start, self._text(node), after)

    def _at(
        self, node: ast.expr | ast.stmt, operator: str, start: int, before: str, after: str
    ) -> Mutant:
        end = start + len(before.encode())
        name = ".".join(self._names)
        line = self._source.count(b"\n", 0, start) + 1
        return Mutant(
            self._path, name, line, operator, before, after, start, end, self._lines,
            around=self._around,
        )  # fmt: skip

    def _text(self, node: ast.expr | ast.stmt) -> str:
        end = self._offset(node.end_lineno or 0, node.end_col_offset or 0)
        return self._source[self._offset(node.lineno, node.col_offset) : end].decode()

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return getattr(node, "attr", None) or getattr(node, "id", "")


def _has_its_own_negation(test: ast.expr) -> bool:
    """The flipped comparison and the dropped ``not`` say the same."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_left_alone(node: ast.stmt) -> bool:
    match node:
        case (
            ast.Import()
            | ast.ImportFrom()
            | ast.Pass()
            | ast.Global()
            | ast.Nonlocal()
            | ast.Assert()
        ):
            return True
        case ast.Expr(value=ast.Constant()):  # docstrings
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="logger")))):
            return True
        case ast.Raise(
            exc=ast.Name(id="AssertionError") | ast.Call(func=ast.Name(id="AssertionError"))
        ):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__")]):
            return True
    return False
