"""How mutants are drawn, which tests they meet, and how they are counted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

from tests.mutation.__main__ import draw, equivalent_ids, stages_for, summary, survivors_of
from tests.mutation.operators import Mutant, mutants_of
from tests.mutation.recording import Record
from tests.mutation.trying import Verdict

SOURCE = b"def f(a, b):\n    return a == 1 and b == 2 and a < b and b > 3\n"
FOUND = mutants_of("agents/turn/m.py", SOURCE)


def test_a_seed_draws_the_same_mutants_each_time() -> None:
    by_area = {"one": FOUND[:6], "two": FOUND[6:]}
    first = draw(by_area, count=8, seed=3)
    assert first == draw(by_area, count=8, seed=3)
    assert first != draw(by_area, count=8, seed=4)
    assert Counter(area for area, _ in first) == {"one": 4, "two": 4}


def test_an_area_with_few_mutants_gives_all_it_has() -> None:
    by_area = {"small": FOUND[:2], "large": FOUND[2:]}
    drawn = draw(by_area, count=8, seed=1)
    assert Counter(area for area, _ in drawn) == {"small": 2, "large": 6}
    assert len(draw(by_area, count=10_000, seed=1)) == len(FOUND)


def mutant(lines: tuple[int, int], path: str = "agents/turn/m.py") -> Mutant:
    return Mutant(path, "f", 1, "o", "a", "b", 0, 1, lines)


def test_a_mutant_meets_the_tests_of_its_lines_the_quickest_first() -> None:
    record = Record(
        {"slow": 3.0, "quick": 0.1, "other": 0.1, "endless": 60.0},
        {
            "agents/turn/m.py": {"1": [], "2": ["slow", "endless"], "3": ["quick"], "9": ["other"]},
            "agents/turn/n.py": {"1": []},
        },
    )
    assert record.tests_for(mutant((2, 3))) == ["quick", "slow"]
    assert record.tests_for(mutant((5, 6))) == []  # no test comes there
    assert record.tests_for(mutant((1, 1))) == ["other", "quick", "slow"]  # on loading
    assert record.tests_for(mutant((1, 1), "agents/turn/n.py")) == ["other", "quick", "slow"]


def test_postgresql_is_tried_last_and_only_where_databases_differ() -> None:
    unit, plain, postgres = "tests/unit/b.py::t", "tests/i.py::t", "tests/i.py::t[postgresql]"
    lines = {"2": [postgres, plain, unit]}
    queue = "agents/runs/queries.py"
    record = Record({}, {"agents/turn/m.py": lines, queue: lines})
    assert stages_for(mutant((2, 2)), record) == [[unit], [plain], [], []]
    assert stages_for(mutant((2, 2), queue), record) == [[unit], [plain], [postgres], []]
    sql = replace(mutant((2, 2)), operator="SQL")
    assert stages_for(sql, record) == [[unit], [plain], [postgres], []]


def test_tests_of_the_same_function_come_after_those_of_the_lines() -> None:
    """A line of which an exception was thrown into a coroutine is not recorded."""
    lines = {"1": ["before"], "2": ["first", "exact"], "3": ["exact"], "9": ["elsewhere"]}
    record = Record({"first": 0.1, "exact": 0.2}, {"agents/turn/m.py": lines})
    in_function = replace(mutant((3, 3)), around=(2, 4))
    assert stages_for(in_function, record) == [[], ["exact"], [], ["first"]]
    unrecorded = replace(in_function, lines=(4, 4))
    assert stages_for(unrecorded, record) == [[], [], [], ["first", "exact"]]


def test_a_mutant_knows_the_lines_of_its_function() -> None:
    source = b"class A:\n    x = f(1)\n\n    def g(self):\n        return 1\n\n    y = f(2)\n\n\nz = [f(1)]\n"
    around = {m.line: m.around for m in mutants_of("m.py", source)}
    assert around == {2: (1, 7), 5: (4, 5), 7: (1, 7), 10: (0, 0)}


def test_a_stage_has_the_quickest_tests_of_bounded_length() -> None:
    names = [f"tests/unit/b.py::{number:02}" for number in range(20)]
    record = Record(dict.fromkeys(names, 4.0), {"agents/turn/m.py": {"2": names}})
    assert stages_for(mutant((2, 2)), record)[0] == names[:7]


def test_the_summary_counts_what_no_test_executes_as_survived() -> None:
    results = [
        ("turn", Verdict("killed", "t")),
        ("turn", Verdict("timeout", "t")),
        ("turn", Verdict("survived")),
        ("log", Verdict("unseen")),
    ]
    lines = summary(results, Counter({"log": 2})).splitlines()
    assert "| turn | 3 | 2 | 1 | 0 | 66.7 % |" in lines
    assert "| log | 3 | 0 | 1 | 2 | 0.0 % |" in lines
    assert lines[-1] == "| **all** | 6 | 2 | 2 | 2 | 50.0 % |"


def test_survivors_and_equivalents_are_found_by_their_ids() -> None:
    rows = [{"id": "1", "result": "killed"}, {"id": "2", "result": "survived"}]
    assert survivors_of("\n".join(map(json.dumps, rows))) == {"2"}
    text = "# T\n\n### `0123456789` a.py f\n\nWhy `abcdefabcd` is not meant.\n"
    assert equivalent_ids(text) == {"0123456789"}
