"""`python -m tests.bench`: measure the figures and print them as a table."""

import argparse
import asyncio
import gc
import shutil
import sys
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.services import Services, missing_services
from tests.acceptance.harness.shapes import Shape
from tests.bench.distribution import Distribution, typical
from tests.bench.figures import FIGURES, Figure, Row
from tests.bench.peer import OpencodePeer
from tests.bench.scenarios import Outcome
from tests.bench.subjects import Crush, Subject
from tests.bench.table import header, line


def main() -> int:
    names = [figure.name for figure in FIGURES]
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--figure", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--shape", choices=list(Shape), type=Shape, default=Shape.EMBEDDED)
    parser.add_argument("--peer", choices=["opencode"], help="measure this one beside it")
    parser.add_argument("--runs", type=int, default=1, help="medians over so many repetitions")
    parser.add_argument("--model", help="base_url of another scripted model, already running")
    parser.add_argument("--keep", action="store_true", help="keep the servers' folders and logs")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="crush-bench-"))
        if options.keep:
            print(f"servers run in {folder}")
        else:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        subjects = _subjects(options, folder, stack)
        chosen = [figure for figure in FIGURES if figure.name in options.figure]
        return _measure(chosen, subjects, options.runs)


def _subjects(options: argparse.Namespace, folder: Path, stack: ExitStack) -> list[Subject]:
    model_url = options.model
    if model_url is None:
        model = ScriptedModel(folder / "model.log")
        model.start()
        stack.callback(model.stop)
        model_url = model.base_url
    services = None
    if options.shape is Shape.SCALED:
        reason = missing_services()
        if reason is not None:
            raise SystemExit(reason)
        services = Services(folder)
        stack.callback(services.stop)
        services.start()
    subjects: list[Subject] = [Crush(options.shape, folder, model_url, services)]
    if options.peer == "opencode":
        subjects.append(OpencodePeer(folder, model_url))
    return subjects


def _measure(figures: list[Figure], subjects: list[Subject], runs: int) -> int:
    print(header([subject.name for subject in subjects]))
    failed = False
    for figure in figures:
        columns: list[list[Outcome]] = []
        for subject in subjects:
            # All subjects of a figure one after the other, so that they meet the same machine.
            skipped = figure.own_only and not subject.native
            try:
                columns.append([] if skipped else [_once(figure, subject) for _ in range(runs)])
            except Exception as error:  # one figure must not take the others with it
                failed = True
                print(f"{figure.name} of {subject.name}: {error!r}", file=sys.stderr)
                columns.append([])
        for row in figure.rows:
            print(line(row, [_taken(row, outcomes) for outcomes in columns]), flush=True)
        _warn_of_own_lateness(columns)
    return 1 if failed else 0


def _once(figure: Figure, subject: Subject) -> Outcome:
    if figure.run is None:
        return Outcome(accept_ms=[subject.second_start_seconds() for _ in range(3)])
    with subject.running() as running:
        gc.collect()
        gc.disable()  # its pauses would be taken for the server's
        try:
            return _run(figure.run(subject, running))
        finally:
            gc.enable()


def _run(scenario: Any) -> Outcome:
    async def measured() -> Outcome:
        outcome: Outcome = await scenario
        return outcome

    coroutine: Coroutine[Any, Any, Outcome] = measured()
    try:
        import uvloop
    except ImportError:
        return asyncio.run(coroutine)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


def _taken(row: Row, outcomes: list[Outcome]) -> Distribution | None:
    taken = [got for got in map(row.take, outcomes) if got is not None]
    return typical(taken) if taken else None


def _warn_of_own_lateness(columns: list[list[Outcome]]) -> None:
    late = [o.own_lateness for outcomes in columns for o in outcomes if o.own_lateness]
    worst = max((d.p99 for d in late), default=0.0)
    if worst > 5:
        print(f"  (the measuring process itself was late: p99 {worst:.1f} ms)")


if __name__ == "__main__":
    sys.exit(main())
