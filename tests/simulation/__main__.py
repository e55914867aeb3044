"""`python -m tests.simulation`: many hosts and runs, on a simulated clock and network, in one process.

The pool, the claims, the registrations, the relay and the rooms are the real ones, on a real database.
Machines are killed, frozen, cut off from the database, restarted, and have their clocks set; the
channel layer delays, drops, repeats and reorders messages. The exit code is 1 if a promise is broken.
"""

import argparse
import sys
from contextlib import ExitStack

from tests.bench.database import prepare_database


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--hosts", type=int, default=50, help="workers (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=10_000, help="prompts (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn")
    parser.add_argument("--steps", type=int, default=6, help="of each run (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=15, help="seconds between steps, on average")
    parser.add_argument("--arrival", type=float, default=30, help="seconds in which prompts come")
    parser.add_argument("--fault-every", type=float, default=2, help="seconds, on average")
    parser.add_argument("--no-faults", action="store_true", help="machines and network work well")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    with ExitStack() as stack:
        prepare_database(stack, options.database, name="simulation")
        sys.exit(_simulate(options))


def _simulate(options: argparse.Namespace) -> int:
    from tests.simulation.network import Weather
    from tests.simulation.scenario import Plan, simulate

    calm = Weather(drops=0, repeats=0)
    plan = Plan(
        hosts=options.hosts,
        runs=options.runs,
        seed=options.seed,
        steps=options.steps,
        pauses=(options.pause / 2, options.pause * 1.5),
        arrival_seconds=options.arrival,
        fault_seconds=options.fault_every,
        faults=not options.no_faults,
        weather=calm if options.no_faults else Weather(),
    )
    found = simulate(plan, report=lambda line: print(line, flush=True))
    print(f"\nsimulated {found.simulated_seconds:.0f} s in {found.real_seconds:.0f} s")
    print(f"most runs running at once: {found.most_running}")
    print(f"longest wait for a place that was free: {found.longest_wait:.2f} s")
    print(f"claims: {found.claims}; writes of holders: {found.writes}, refused: {found.fenced_off}")
    sent, lost = found.messages
    print(f"messages of the channel layer: {sent}, of these lost: {lost}")
    print("faults:", ", ".join(f"{name} {count}" for name, count in sorted(found.faults.items())))
    for how, (count, longest) in found.continued.items():
        print(f"runs continued after their worker was {how}: {count}, longest {longest:.1f} s")
    print("transactions:", ", ".join(f"{name} {count}" for name, count in found.jobs.items()))
    print(f"digest: {found.digest}")
    for sentence in found.broken[:20]:
        print(f"BROKEN {sentence}")
    print(f"broken promises: {len(found.broken)}")
    return 1 if found.broken else 0


if __name__ == "__main__":
    main()
