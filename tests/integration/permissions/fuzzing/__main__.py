"""Runs the fuzzer by hand: one seed after another until the time is up."""

from __future__ import annotations

import argparse
import sys
import time

from permissions.policy.commands import is_read_only
from tests.integration.permissions.fuzzing.sandbox import Sandbox
from tests.integration.permissions.fuzzing.search import search


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    seed, found = options.seed, 0
    sandbox = Sandbox()
    try:
        while (left := end - time.monotonic()) > 0:
            result = search(
                is_read_only, seed=seed, seconds=min(60, left), sandbox=sandbox, most=20
            )
            print(result, flush=True)
            for finding in result.findings or ():
                found += 1
                print(f"  {finding.lines!r}\n    {'; '.join(finding.effects)}", flush=True)
            seed += 1
    finally:
        sandbox.close()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
