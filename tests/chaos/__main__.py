"""`python -m tests.chaos`: runs with side effects on two web processes and two workers, and faults.

A seed draws the faults (kills, stops, freezes, cut and delayed links, clock steps, outages of
PostgreSQL and Redis) and the runs. Meanwhile readers come and go, permission requests are answered
and some runs are cancelled. When the faults are over and all runs have ended, everything is checked:
each accepted run ended once, no effect happened twice, and every reader has what is stored. The exit
code is 1 if anything is wrong; then the seed and the plan are printed, and the logs are kept.
"""

import argparse
import asyncio
import os
import random
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import django

from tests.isolation import isolate

isolate()  # before settings are imported
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()  # the schemas of streams are made from serializers

from tests.acceptance.harness.services import missing_services  # noqa: E402
from tests.chaos.ordeal import carry_out  # noqa: E402
from tests.chaos.places import PLACES, SESSIONS  # noqa: E402
from tests.chaos.plan import draw_plan  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, help="repeats the plan of this seed (default: any)")
    parser.add_argument("--runs", type=int, default=600, help="accepted prompts (default: 600)")
    parser.add_argument(
        "--minutes", type=float, default=10, help="of faults (default: 10); then runs end"
    )
    parser.add_argument("--logs", type=Path, help="a new folder for the logs, which is kept")
    parser.add_argument("--plan", action="store_true", help="print the plan, and do nothing")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    plan = draw_plan(
        seed, runs=options.runs, minutes=options.minutes, places=PLACES, sessions=SESSIONS
    )
    if options.plan:
        print(plan)
        return 0
    if (reason := missing_services()) is not None:
        print(reason, file=sys.stderr)
        return 2
    # Not below a folder that is closed to others: PostgreSQL runs as another user than root.
    logs = options.logs or Path(tempfile.mkdtemp(prefix=f"crush-chaos-{seed}-"))
    logs.mkdir(parents=True, exist_ok=True)
    print(f"seed {seed}, {len(plan.faults)} faults, {len(plan.runs)} runs, logs in {logs}")
    findings = asyncio.run(carry_out(plan, logs, random.Random(seed), sys.stdout))
    print(f"\n{findings.table()}")
    if not findings.violations:
        if options.logs is None:
            shutil.rmtree(logs, ignore_errors=True)
        return 0
    print(f"\n{plan}\n\n{findings.details()}\n\nlogs are in {logs}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
