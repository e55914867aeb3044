"""`crush-server`, `python -m crushsite`, and this file run as a script.

A sub-agent's process is started by this file's path: its working directory is a
workspace, from which Python must import nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])


def main() -> None:
    if sys.argv[1:2] == ["runchild"]:
        # Before any setting is read: a child has a database of its own, or none at all.
        from crushsite.child.main import main as run_child  # noqa: PLC0415  see above

        sys.exit(run_child(sys.argv[2:]))
    if sys.argv[1:2] == ["remote-worker"]:
        from crushsite.cli.remote_worker import main as work_remotely  # noqa: PLC0415  the same

        sys.exit(work_remotely(sys.argv[2:]))
    from crushsite.cli.program import run  # noqa: PLC0415  the same
    from crushsite.program_name import CHECKOUT_PROGRAM, PROGRAM  # noqa: PLC0415  a child does without

    if Path(sys.argv[0]).name != CHECKOUT_PROGRAM:
        sys.argv[0] = PROGRAM  # also where the module was run
    run(sys.argv)


if __name__ == "__main__":
    main()
