"""Parses a command line into the list of simple commands that it may run.

The parser's tree gives the structure, but is not trusted: every byte must be accounted for, the
words are parsed again by the shell's rules, and any node type not listed here raises ``WordDoubt``.
Nesting and order are dropped, because a command line only reads if every command in it only reads.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from permissions.policy.steps import Loop, Opened, Simple, Step, Test, VariableAssignment
from permissions.policy.words import Word, WordDoubt, read_words

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_LENGTH = 4_000  # longer commands usually write, and parsing takes time for each character
MAX_DEPTH = 25

# Tokens allowed directly in a node that contains commands; the gaps show the newlines.
_BLOCKS = {
    "program": {";"},
    "list": {"&&", "||"},
    "pipeline": {"|", "|&"},
    "negated_command": {"!"},
    "subshell": {"(", ")", ";"},
    "compound_statement": {"{", "}", ";"},
    "if_statement": {"if", "then", "fi", ";"},
    "elif_clause": {"elif", "then", ";"},
    "else_clause": {"else", ";"},
    "while_statement": {"while", "until", ";"},
    "do_group": {"do", "done", ";"},
    "redirected_statement": set[str](),
}
_SUBSTITUTIONS = {
    "command_substitution": {"$(", "`", ")", ";"},
    "process_substitution": {"<(", ")", ";"},
}
_TOKENS = _BLOCKS | _SUBSTITUTIONS
_ONE_LINE = {"redirected_statement", "negated_command"}
_WORDS = {
    "word", "number", "string", "raw_string", "ansi_c_string", "concatenation",
    "simple_expansion", "expansion", "arithmetic_expansion", "command_substitution",
    "process_substitution",
}  # fmt: skip
_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")
_DOUBLE_BRACKETS = re.compile(r"\[\[(?P<inner>[ \t].*[ \t])\]\]", re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")

_REDIRECTS = {"file_redirect", "herestring_redirect", "heredoc_redirect"}
_REDIRECT = re.compile(r"(?:[0-9]*(?:<|>|>>|>\||<&|>&)|&>|&>>)(?![<>&|])[ \t]*")
_CLOSE = re.compile(r"[0-9]*[<>]&-")
_DESCRIPTOR = re.compile(r"[0-9]{1,4}")  # bash reads other digits, like ``²``, as a file name
# The text that may come directly before: a word there could be ``{name}`` or ``{name[subscript]}``,
# which makes bash store the descriptor in a variable and evaluate the subscript.
_BEFORE = re.compile(r"(?:^|(?<!\\)[ \t\n]|[;&|(])\Z")


@cache
def _language() -> Language:
    # Imported at the first check of a command, because most processes never check one.
    import tree_sitter  # noqa: PLC0415  see above
    import tree_sitter_bash  # noqa: PLC0415  see above

    return tree_sitter.Language(tree_sitter_bash.language())


@dataclass(frozen=True, slots=True)
class CommandLine:
    steps: tuple[Step, ...]
    variables: frozenset[str]  # all variables that it expands


def read_line(command: str) -> CommandLine:
    """Returns all that running ``command`` may run. Raises only ``WordDoubt``."""
    if len(command) > MAX_LENGTH:
        raise WordDoubt(f"It is longer than {MAX_LENGTH:,} characters.")
    if any(_is_deceptive(char) for char in command):
        raise WordDoubt("It holds characters that cannot be seen.")
    from tree_sitter import Parser  # noqa: PLC0415  see `_language`

    data = command.encode()
    root = Parser(_language()).parse(data).root_node
    if root.has_error:
        raise WordDoubt("It is not understood.")
    reader = _Reader(data.decode("latin-1"))
    reader.index(root)
    reader.gap(0, root.start_byte)
    reader.block(root)
    return CommandLine(tuple(reader.steps), frozenset(reader.variables))


def _is_deceptive(char: str) -> bool:
    if char.isascii():
        return not char.isprintable() and char not in {"\n", "\t"}
    return unicodedata.category(char).startswith(("C", "Z"))


@dataclass(slots=True)
class _Reader:
    source: str  # one character for each byte, to match the offsets of the tree
    steps: list[Step] = field(default_factory=list)
    substitutions: dict[int, Node] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    depth: int = 0

    def index(self, root: Node) -> None:
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node.type in _SUBSTITUTIONS:
                self.substitutions[node.start_byte] = node
            waiting.extend(node.children)

    def gap(self, start: int, end: int, *, lines: bool = True) -> None:
        """Checks the text between two nodes: only blanks, and one next to a line continuation."""
        text = self.source[start:end]
        if not _GAP.fullmatch(text):
            raise WordDoubt("It is not understood.")
        if "\\" in text and not re.search(r"[ \t]", text):
            raise WordDoubt("It breaks a word over two lines.")
        if not lines and "\n" in text.replace("\\\n", ""):
            raise WordDoubt("It is not understood.")

    def children(self, node: Node, *, lines: bool) -> Iterator[Node]:
        at = node.start_byte
        for child in node.children:
            self.gap(at, child.start_byte, lines=lines)
            yield child
            at = child.end_byte
        self.gap(at, node.end_byte, lines=lines)

    def block(self, node: Node) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise WordDoubt("It is nested too deeply.")
        if self.source.startswith(("((", "$((", "<(("), node.start_byte):
            raise WordDoubt("It may calculate, which can run code.")
        tokens = _TOKENS[node.type]
        separated, last = True, node.start_byte
        for child in self.children(node, lines=node.type not in _ONE_LINE):
            # Without a separator between them the shell reads two commands as one.
            separated |= "\n" in self.source[last : child.start_byte].replace("\\\n", "")
            last = child.end_byte
            if child.type in tokens:
                if child.type == "{" and self.source[child.end_byte] not in {" ", "\t", "\n"}:
                    raise WordDoubt("It is not understood.")  # ``{a`` is a word, not a group
                separated = True
            elif child.type == "comment":
                self.comment(child)
            elif child.type in _REDIRECTS:
                self.redirect(child)
            elif not separated and child.is_named:
                raise WordDoubt("It is not understood.")
            else:
                self.statement(child)
                # A nested list keeps its own last separator.
                separated = self.source[child.end_byte - 1] in {";", "\n"}
        self.depth -= 1

    def statement(self, node: Node) -> None:
        match node.type:
            case "command":
                self.command(node)
            case "variable_assignment":
                self.steps.append(Simple((self.assignment(node),)))
            case "test_command":
                self.test(node)
            case "for_statement":
                self.loop(node)
            case kind if kind in _BLOCKS:
                self.block(node)
            case "function_definition":
                raise WordDoubt("It defines a function.")
            case "&":
                raise WordDoubt("It leaves a command running in the background.")
            case _:
                raise WordDoubt("It uses a part of the shell that is not checked.")

    def words(self, start: int, end: int) -> tuple[Word, ...]:
        return read_words(
            self.source, start, end, substitution=self.substitution, variables=self.variables
        )

    def word(self, start: int, end: int) -> Word:
        found = self.words(start, end)
        if len(found) != 1:
            raise WordDoubt("It is not understood.")
        return found[0]

    def substitution(self, start: int) -> int:
        node = self.substitutions.get(start)
        if node is None or (
            self.source[start] == "`" and "\\" in self.source[start : node.end_byte]
        ):
            raise WordDoubt("It holds a substitution that is not understood.")
        self.block(node)
        return node.end_byte

    def comment(self, node: Node) -> None:
        before = self.source[node.start_byte - 1] if node.start_byte else "\n"
        line = self.source[node.start_byte :].partition("\n")[0]
        if before not in {" ", "\t", "\n", ";"} or node.end_byte != node.start_byte + len(line):
            raise WordDoubt("It holds a comment that is not understood.")

    def command(self, node: Node) -> None:
        assignments: list[VariableAssignment] = []
        words: list[Word] = []
        last: int | None = None
        for child in self.children(node, lines=False):
            if child.start_byte == last:
                raise WordDoubt("It is not understood.")  # two adjacent words are one
            last = child.end_byte
            if child.type == "variable_assignment":
                assignments.append(self.assignment(child))
            elif child.type in _REDIRECTS:
                self.redirect(child)
            elif child.type in _WORDS or child.type == "command_name":
                words.append(self.word(child.start_byte, child.end_byte))
            else:
                raise WordDoubt("It uses a part of the shell that is not checked.")
        self.steps.append(Simple(tuple(assignments), tuple(words)))

    def assignment(self, node: Node) -> VariableAssignment:
        match = _ASSIGNMENT.match(self.source, node.start_byte, node.end_byte)
        if match is None:
            raise WordDoubt("It sets a variable in a way that is not checked.")
        if match.end() == node.end_byte:
            return VariableAssignment(match.group(1), Word(""))
        return VariableAssignment(match.group(1), self.word(match.end(), node.end_byte))

    def redirect(self, node: Node) -> None:
        file = _read_redirect(
            node.type, self.source, node.start_byte, node.end_byte, word=self.word
        )
        if file is not None:
            self.steps.append(Opened(file))

    def test(self, node: Node) -> None:
        start, end = node.start_byte, node.end_byte
        if inner := _DOUBLE_BRACKETS.fullmatch(self.source, start, end):
            for part in self.clauses(*inner.span("inner")):
                self.steps.append(Test(part))
        else:
            self.steps.append(Simple(words=(Word("["), *self.words(start + len("["), end))))

    def clauses(self, start: int, end: int) -> Iterator[tuple[Word, ...]]:
        # A quoted ``&&`` only splits a word in the wrong place, which then raises ``WordDoubt``.
        at = start
        for part in re.split(r"(&&|\|\|)", self.source[start:end]):
            if part not in {"&&", "||"}:
                yield self.words(at, at + len(part))
            at += len(part)

    def loop(self, node: Node) -> None:
        parts = list(self.children(node, lines=True))
        name = parts[1]
        words: list[Word] = []
        for part in parts:
            if part.type == "do_group":
                self.block(part)
            elif part.type in _WORDS:
                words.append(self.word(part.start_byte, part.end_byte))
            elif part.type not in {"for", "variable_name", "in", ";"}:
                raise WordDoubt("It uses a kind of loop that is not checked.")
        self.steps.append(Loop(self.source[name.start_byte : name.end_byte], tuple(words)))


def _read_redirect(
    kind: str, source: str, start: int, end: int, *, word: Callable[[int, int], Word]
) -> Word | None:
    """Returns the file that a redirection reads, if any; ``word`` parses the single word of it.

    Raises ``WordDoubt`` unless the redirection only reads.
    """
    if not _BEFORE.search(source, 0, start):
        raise WordDoubt("It redirects directly behind a word, which may set a variable.")
    if _CLOSE.fullmatch(source, start, end):
        return None
    if kind == "heredoc_redirect":
        raise WordDoubt("It holds a here-document.")
    if kind == "herestring_redirect":
        if not source.startswith("<<<", start):
            raise WordDoubt("It is not understood.")
        word(start + 3, end)
        return None
    match = _REDIRECT.match(source, start, end)
    if match is None:
        raise WordDoubt("It redirects in a way that is not checked.")
    operator = match.group().strip(" \t0123456789")
    named = word(match.end(), end)
    target = named.exact
    if target is None:
        raise WordDoubt("It redirects to or from a name that is computed.")
    if operator in {"<&", ">&"} and _DESCRIPTOR.fullmatch(target):
        return None
    if operator == "<":
        # Bash itself opens these two as network connections.
        if target.startswith(("/dev/tcp", "/dev/udp")):
            raise WordDoubt("It reads from the network.")
        return named
    if target != "/dev/null":
        raise WordDoubt("It redirects output into a file.")
    return None
