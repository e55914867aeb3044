"""Draws seeded mutants and tells which of them the tests notice: ``python -m tests.mutation``."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import subprocess
import time
from collections import Counter
from pathlib import Path

from tests.mutation.operators import Mutant, mutants_of
from tests.mutation.recording import Record, Recorder, digest_of
from tests.mutation.targets import AREAS, files_of, tests_of
from tests.mutation.trying import Tree, Verdict, copy_tree, load_libraries

ROOT = Path(__file__).resolve().parent.parent.parent
STAGE_SECONDS = 30.0
_ABOUT_DATABASES = ("workspaces/log/", "agents/runs/queries.py", "agents/runs/transitions.py")
EQUIVALENTS = Path(__file__).with_name("equivalents.md")


def equivalent_ids(text: str) -> set[str]:
    """The ids that the headings of the list of equivalents name."""
    return set(re.findall(r"^### `([0-9a-f]{10})`", text, re.MULTILINE))


def survivors_of(report: str) -> set[str]:
    rows = map(json.loads, report.splitlines())
    return {row["id"] for row in rows if row["result"] in {"survived", "unseen"}}


def draw(by_area: dict[str, list[Mutant]], *, count: int, seed: int) -> list[tuple[str, Mutant]]:
    """The same number from each area, as far as it has so many; mixed."""
    generator = random.Random(seed)
    shuffled = {area: generator.sample(found, len(found)) for area, found in by_area.items()}
    drawn: list[tuple[str, Mutant]] = []
    while len(drawn) < count and any(shuffled.values()):
        for area, left in shuffled.items():
            if left and len(drawn) < count:
                drawn.append((area, left.pop()))
    generator.shuffle(drawn)
    return drawn


def stages_for(mutant: Mutant, record: Record) -> list[list[str]]:
    """Without a database, on SQLite, on PostgreSQL where that may differ; then of its function."""
    tests = record.tests_for(mutant)
    units = [test for test in tests if test.startswith("tests/unit/")]
    postgres = [test for test in tests if "[postgresql" in test]
    others = [test for test in tests if test not in {*units, *postgres}]
    is_about_databases = mutant.operator == "SQL" or mutant.path.startswith(_ABOUT_DATABASES)
    around = [test for test in record.tests_around(mutant) if "[postgresql" not in test]
    stages = [units, others, postgres if is_about_databases else [], around]
    return [_within(stage, record) for stage in stages]


def _within(tests: list[str], record: Record) -> list[str]:
    """The quickest that take so long together. More would seldom find more."""
    totals = itertools.accumulate(record.seconds.get(test, 0.0) for test in tests)
    return [test for test, total in zip(tests, totals, strict=True) if total <= STAGE_SECONDS]


def summary(results: list[tuple[str, Verdict]], equivalents: Counter[str]) -> str:
    """A table by area; a mutant that no test executes has survived."""
    lines = [
        "| area | drawn | killed | survived | equivalent | score |",
        "|---|---|---|---|---|---|",
    ]
    for area in [*AREAS, ""]:
        of_area = [v.result for name, v in results if not area or name == area]
        equal = equivalents[area] if area else sum(equivalents.values())
        killed = sum(result in {"killed", "timeout"} for result in of_area)
        counted = len(of_area)
        score = f"{100 * killed / counted:.1f} %" if counted else "-"
        name = area or "**all**"
        lines.append(
            f"| {name} | {counted + equal} | {killed} | {counted - killed} | {equal} | {score} |"
        )
    return "\n".join(lines)


def diff_of(mutant: Mutant) -> str:
    place = f"{mutant.path}:{mutant.line} {mutant.function}".strip()
    old = mutant.before.strip().replace("\n", "\n  - ")
    new = mutant.after.strip().replace("\n", "\n  + ")
    return f"`{mutant.id}` {place} ({mutant.operator})\n  - {old}\n  + {new}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draw", type=int, default=300, help="how many mutants (default 300)")
    parser.add_argument("--area", choices=list(AREAS), action="append", help="only this area")
    parser.add_argument(
        "--only", default="", help="only mutants whose id, path or function has this"
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="try no more after so long")
    parser.add_argument("--tests", nargs="*", help="only these tests, for a retry with new ones")
    parser.add_argument("--also", nargs="*", default=[], help="tests that were not recorded yet")
    parser.add_argument("--retry", type=Path, help="only the survivors of this earlier report")
    parser.add_argument(
        "--record", action="store_true", help="record anew which tests execute what"
    )
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/crush-mutation"))
    parser.add_argument("--list", action="store_true", help="show the drawn mutants and stop")
    given = parser.parse_args()

    files = files_of(ROOT)
    by_area = {
        area: [m for file in files[area] for m in mutants_of(file, (ROOT / file).read_bytes())]
        for area in given.area or AREAS
    }
    drawn = draw(by_area, count=given.draw, seed=given.seed)
    whole = [(area, m) for area, found in by_area.items() for m in found]
    if given.only:
        drawn = [(a, m) for a, m in whole if given.only in f"{m.id} {m.path} {m.function}"]
    if given.retry:
        survivors = survivors_of(given.retry.read_text())
        drawn = [(a, m) for a, m in whole if m.id in survivors]
    if given.list:
        print(*(diff_of(mutant) for _, mutant in drawn), sep="\n")
        print(f"{len(drawn)} of {sum(map(len, by_area.values()))}")
        return
    _try_all(drawn, files, given)


def _try_all(
    drawn: list[tuple[str, Mutant]], files: dict[str, list[str]], given: argparse.Namespace
) -> None:
    load_libraries()
    scratch: Path = given.scratch
    copy_tree(ROOT, scratch / "tree")
    tree = Tree(scratch / "tree", scratch / "temporary")
    record = _recorded(tree, [file for area in files.values() for file in area], given)
    equivalent = equivalent_ids(EQUIVALENTS.read_text())
    equivalents: Counter[str] = Counter()
    results: list[tuple[str, Verdict]] = []
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    began = time.monotonic()
    name = f"report-{commit}-{given.seed}{'-retried' if given.retry else ''}.jsonl"
    with (scratch / name).open("w") as report:
        for number, (area, mutant) in enumerate(drawn, 1):
            if time.monotonic() - began > given.minutes * 60:
                print(f"the time is over: {number - 1} of {len(drawn)} were tried")
                break
            if mutant.id in equivalent:
                equivalents[area] += 1
                continue
            verdict = tree.attempt(
                mutant, [*stages_for(mutant, record), given.also], record.seconds
            )
            results.append((area, verdict))
            row = {"area": area, **mutant.__dict__, "id": mutant.id, **verdict.__dict__}
            report.write(json.dumps(row) + "\n")
            report.flush()
            print(
                f"{number}/{len(drawn)} {verdict.result} {verdict.seconds} s {mutant.path}",
                flush=True,
            )
            if verdict.result in {"survived", "unseen"}:
                print(diff_of(mutant), flush=True)
    _verify(tree, results)
    print(f"commit {commit}, seed {given.seed}, {time.monotonic() - began:.0f} s\n")
    print(summary(results, equivalents))


def _recorded(tree: Tree, files: list[str], given: argparse.Namespace) -> Record:
    """As stored, while the files are the same and nobody wants it anew."""
    stored: Path = given.scratch / "record.json"
    if not given.record and stored.exists():
        record = Record.load(stored)
        if record.digest == digest_of(tree.folder, files):
            return record
    print("recording which tests execute what ...", flush=True)
    recorder = Recorder(tree.folder, files, stored)
    tests = given.tests or tests_of(ROOT)
    code, failed = tree.run(tests, limit=3600, plugins=[recorder], keep_going=True)
    if code != 0:
        print(
            f"some tests failed or were skipped and are left out; the first: {failed}", flush=True
        )
    return Record.load(stored)


def _verify(tree: Tree, results: list[tuple[str, Verdict]]) -> None:
    """A test that fails by itself has killed nothing."""
    killers = sorted({v.by for _, v in results if v.result == "killed" and "::" in v.by})
    if killers:
        code, failed = tree.run(killers, limit=1800, keep_going=True)
        print(f"{len(killers)} tests that killed something pass on the tree as it is: {code == 0}")
        if code != 0:
            print(f"fails by itself: {failed}")


if __name__ == "__main__":
    main()
