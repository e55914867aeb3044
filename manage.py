#!/usr/bin/env python
"""Runs a management command with this project's settings."""

import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["runchild"]:
        # Before any setting is read: a child has a database of its own, or none at all.
        from crushsite.child.main import main as run_child  # noqa: PLC0415  see above

        sys.exit(run_child(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crushsite.settings")
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415  settings first
    from django.core.management import execute_from_command_line  # noqa: PLC0415  settings first

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # A variable's value: its sentence says what to mend, a stack trace would hide it.
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
