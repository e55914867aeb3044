import pytest

from agents.tools.contract import BadArguments
from agents.tools.lsp import symbol_search
from agents.tools.lsp.positions import Position, PositionedText, Span
from agents.tools.lsp.responses import Symbol
from agents.tools.lsp.symbol_names import SymbolName, matching, name_position, occurrences


def symbol(name: str, line: int, *children: Symbol, container: str = "") -> Symbol:
    at = Position(line, 0)
    return Symbol(name, "Function", Span(at, Position(line, 99)), at, container, children)


@pytest.mark.parametrize(
    ("written", "name", "containers"),
    [
        ("parse", "parse", ()),
        ("Reader.parse", "parse", ("Reader",)),
        ("pkg::Reader::parse()", "parse", ("pkg", "Reader")),
        ("parse(a.b, c)", "parse", ()),
        ("Reader#parse", "parse", ("Reader",)),
        ("App\\Reader", "Reader", ("App",)),
        ("...", "...", ()),
    ],
)
def test_a_name_is_taken_apart(written: str, name: str, containers: tuple[str, ...]) -> None:
    assert SymbolName.parse(written) == SymbolName(name, containers)


@pytest.mark.parametrize("told", ["parse", "(*Reader).parse", "Reader::parse", "parse(int, int)"])
def test_servers_spell_names_in_their_own_ways(told: str) -> None:
    assert SymbolName("parse").is_called(told)
    assert not SymbolName("arse").is_called(told)


def test_symbols_are_found_at_any_depth_and_by_what_they_lie_in() -> None:
    tree = [symbol("A", 0, symbol("run", 1)), symbol("B", 3, symbol("run", 4))]
    assert [f.symbol.span.start.line for f in matching(tree, SymbolName("run"))] == [1, 4]
    (found,) = matching(tree, SymbolName.parse("B.run"))
    assert (found.symbol.span.start.line, found.above) == (4, ("B",))
    assert len(matching(tree, SymbolName.parse("C.run"))) == 2  # better than nothing


def test_flat_lists_tell_their_containers() -> None:
    flat = [symbol("run", 1, container="A"), symbol("run", 4, container="B")]
    (found,) = matching(flat, SymbolName.parse("B.run"))
    assert found.symbol.span.start.line == 4


def test_the_name_is_found_in_what_begins_with_its_keyword() -> None:
    text = PositionedText("async def run(): run()\n")
    found = symbol("run", 0)
    assert name_position(found, SymbolName("run"), text) == Position(0, 10)


def test_words_that_seem_to_be_defined_come_first() -> None:
    text = PositionedText("run()\nrunner()\n# run\ndef run():\n    self.run()\n")
    found = occurrences(text, SymbolName("run"), most=10)
    assert [place.line for place in found] == [3, 0, 2, 4]
    inside = occurrences(text, SymbolName.parse("self.run"), most=1)
    assert [place.line for place in inside] == [3]


def test_columns_of_words_are_in_the_servers_units() -> None:
    (place,) = occurrences(PositionedText("'\N{GRINNING FACE}' + run"), SymbolName("run"), most=5)
    assert place == Position(0, 7)


@pytest.mark.parametrize("written", ["run\nstop", "run\r\n", "run\rstop"])
def test_a_name_of_several_lines_is_refused_by_its_field(written: str) -> None:
    with pytest.raises(BadArguments, match=r"^symbol must be a single line\.$"):
        symbol_search.parse({"symbol": written})
    with pytest.raises(BadArguments, match=r"^new_name must"):
        symbol_search.symbol({"new_name": written}, "new_name")
